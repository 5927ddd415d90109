"""The curves of a run, in the order in which one reads them."""

from sweyard_cli.report.held_out_chart import held_out_chart
from sweyard_cli.report.line_chart import Series, line_chart
from sweyard_cli.report.outcome_chart import outcome_chart
from sweyard_cli.report.svg import Chart
from sweyard_cli.results.run_results import RunResults

SMOOTHED_STEPS = 5


def charts_of(results: RunResults) -> list[Chart]:
    """Those that the run has figures for."""
    seconds = {"whole step": "time/step_seconds", "rollouts": "time/rollout_seconds", "training": "time/train_seconds"}
    smoothed = f"Dots: steps; line: mean of {SMOOTHED_STEPS}."
    charts = [
        held_out_chart(results.evaluations),
        line_chart(
            "Reward, mean of a step",
            [Series("reward", results.series("rollout/reward_mean"))],
            _number,
            at_least=(0.0,),
            smooth=SMOOTHED_STEPS,
            note=smoothed,
        ),
        outcome_chart(results.outcomes()),
        line_chart(
            "Seconds a step", [Series(n, results.series(f)) for n, f in seconds.items()], _number, at_least=(0.0,)
        ),
        line_chart("Loss of training steps", [Series("loss", results.series("train/loss"))], _number),
        line_chart("Loss of the warm-up", [Series("loss", results.series("warmup/loss"))], _number, at_least=(0.0,)),
    ]
    return [chart for chart in charts if chart is not None]


def _number(value: float) -> str:
    return f"{value:.3g}"
