"""Metrics of runs."""

from prometheus_client import CollectorRegistry, generate_latest

from sweyard_operator.run_metrics import RunMetrics


def test_metrics_follow_a_run_and_forget_it() -> None:
    registry = CollectorRegistry()
    metrics = RunMetrics(registry)
    metrics.show("lab", "demo", {"phase": "Starting", "step": 0}, 0)
    running = {"phase": "Running", "step": 3, "restarts": 1, "metrics": {"rewardMean": 0.5}}
    metrics.show("lab", "demo", running, 1)
    shown = generate_latest(registry).decode()
    assert 'sweyard_run_phase{namespace="lab",phase="Running",run="demo"} 1.0' in shown
    assert "Starting" not in shown
    assert 'sweyard_run_step{namespace="lab",run="demo"} 3.0' in shown
    assert 'sweyard_run_metric{name="rewardMean",namespace="lab",run="demo"} 0.5' in shown
    assert "sweyard_run_stage_seconds_count" not in shown, "nobody has seen the first phase begin"
    usage = {"gpus": 4, "gpuHours": 2.5, "countedAt": ""}
    conditions = [{"type": "Progressing", "status": "False", "reason": "Unschedulable", "message": ""}]
    metrics.show("lab", "demo", {"phase": "Restarting", "usage": usage, "conditions": conditions}, 31)
    shown = generate_latest(registry).decode()
    assert 'sweyard_run_stage_seconds_sum{namespace="lab",stage="Running"} 30.0' in shown
    assert 'sweyard_run_gpu_hours{namespace="lab",run="demo"} 2.5' in shown
    labels = 'namespace="lab",reason="Unschedulable",run="demo",type="Progressing"'
    assert f"sweyard_run_condition{{{labels}}} 0.0" in shown
    metrics.forget("lab", "demo")
    assert 'run="demo"' not in generate_latest(registry).decode()
