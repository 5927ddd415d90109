import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sweyard_api.resolve import dump_config, resolve
from sweyard_trainer import gang
from sweyard_trainer.environment import Environment
from sweyard_trainer.errors import StoppedError, UnsupportedError
from sweyard_trainer.exit_codes import exit_code_of
from sweyard_trainer.phases.policy import NoSignalError
from sweyard_trainer.run import needs_ray

POD = {
    "SWEYARD_RUN": "r",
    "SWEYARD_RUN_UID": "u",
    "SWEYARD_NAMESPACE": "n",
    "SWEYARD_POOL": "p",
    "SWEYARD_POD_NAME": "r-trainer-0-0",
    "SWEYARD_ATTEMPT": "2",
    "SWEYARD_HEAD_ADDRESS": "h",
    "SWEYARD_ENGINE_URLS": "http://a,http://b",
    "JOB_COMPLETION_INDEX": "1",
}


def test_other_ranks_end_as_rank_zero_did(tmp_path: Path) -> None:
    mark = gang.end_mark(tmp_path, 3)
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 2:
            gang.leave_mark(mark, 143)

    assert gang.wait_for_mark(mark, is_alive=lambda: True, sleep=nap) == 143
    assert len(naps) == 2


def test_a_mark_counts_even_when_ray_has_already_gone(tmp_path: Path) -> None:
    mark = gang.end_mark(tmp_path, 0)
    gang.leave_mark(mark, 0)
    assert gang.wait_for_mark(mark, is_alive=lambda: False) == 0


def test_a_volume_that_takes_no_mark_does_not_change_how_rank_zero_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It raised, so that a full volume ended the process with 1, and was tried again until no restart was left."""
    broken = tmp_path / "volume"
    broken.touch()
    gang.leave_mark(gang.end_mark(broken, 0), 2)
    assert "ended with 2" in caplog.text


def test_a_rank_whose_ray_died_alone_ends_in_an_error(tmp_path: Path) -> None:
    with pytest.raises(gang.GangBrokenError):
        gang.wait_for_mark(gang.end_mark(tmp_path, 0), is_alive=lambda: False)


def test_a_rank_that_is_told_to_end_stops_rank_zero_once(tmp_path: Path) -> None:
    mark = gang.stop_mark(tmp_path, 3)
    naps: list[float] = []
    stopped: list[int] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 2:
            gang.ask_for_stop(mark)
            gang.ask_for_stop(mark)  # by two ranks of one drain

    gang.stop_when_asked(mark, lambda: stopped.append(len(naps)), sleep=nap)
    assert stopped == [2]
    assert not gang.stop_mark(tmp_path, 4).exists(), "the next attempt is not stopped by it"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(StoppedError("x"), 143, id="stopped"),
        pytest.param(NoSignalError("x"), 2, id="tasks teach nothing"),
        pytest.param(UnsupportedError("x"), 2, id="unsupported"),
        pytest.param(gang.GangBrokenError("x"), 1, id="gang broken"),
        pytest.param(ValueError("x"), 1, id="a bug"),
    ],
)
def test_exit_codes_tell_the_users_faults_from_ours(error: Exception, code: int) -> None:
    assert exit_code_of(error) == code


def test_the_environment_of_a_pod_is_read_once() -> None:
    environment = Environment.of_pod(POD)
    assert (environment.rank, environment.attempt) == (1, 2)
    assert environment.engine_urls == ("http://a", "http://b")
    assert environment.gateway_admin_url == ""
    with pytest.raises(KeyError, match="SWEYARD_POOL"):
        Environment.of_pod({name: value for name, value in POD.items() if name != "SWEYARD_POOL"})


@pytest.mark.parametrize(
    ("mode", "ranks", "workers", "needed"),
    [
        ("rl", 1, 1, False),
        ("rl", 4, 1, True),
        ("rl", 1, 2, True),
        ("eval", 4, 1, False),
        ("eval", 4, 2, True),
    ],
)
def test_processes_beside_this_one_need_ray(mode: str, ranks: int, workers: int, needed: bool) -> None:
    tasks = {"train": {"dataset": "tiny"}, "eval": [{"dataset": "tiny"}]}
    trainer = {"processesPerReplica": ranks, "device": "cpu"}
    spec = resolve(
        {"preset": "tiny", "mode": mode, "tasks": tasks, "trainer": trainer, "rollout": {"workers": workers}}
    )
    assert needs_ray(spec) == needed


def test_pods_that_an_evaluation_has_for_their_engines_are_one_gang() -> None:
    trainer = {"replicas": 2, "device": "cuda"}
    inference = {"engine": "vllm", "placement": "colocated", "replicas": 2}
    asked = {"preset": "tiny", "mode": "eval", "tasks": {"train": {"dataset": "tiny"}, "eval": [{"dataset": "tiny"}]}}
    assert needs_ray(resolve({**asked, "trainer": trainer, "inference": inference}))


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_whose_gang_has_not_come_together_ends_at_once_when_told_to(tmp_path: Path, rank: int) -> None:
    """It was killed at the end of its grace period, for which an unplaced gang held what it could not use."""
    spec = {"preset": "tiny", "tasks": {"train": {"dataset": "tiny"}}, "trainer": {"replicas": rank + 1}}
    config = tmp_path / "config.yaml"
    config.write_text(dump_config(resolve(spec)))
    told = {"JOB_COMPLETION_INDEX": str(rank), "SWEYARD_HEAD_ADDRESS": "127.0.0.1", "SWEYARD_STORAGE": str(tmp_path)}
    command = [sys.executable, "-c", IGNORES_SIGNALS, "--config", str(config)]
    with subprocess.Popen(command, env={**os.environ, **POD, **told}, stderr=subprocess.PIPE, text=True) as pod:
        try:
            while not handles_sigterm(pod.pid):
                assert pod.poll() is None
                time.sleep(0.02)
            pod.send_signal(signal.SIGTERM)
            assert pod.wait(60) == 143
        finally:
            pod.kill()


IGNORES_SIGNALS = """
import signal, runpy, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as the first process of a container does
sys.argv[0] = "sweyard_trainer"
runpy.run_module("sweyard_trainer", run_name="__main__")
"""


def handles_sigterm(pid: int) -> bool:
    """Whether it has a handler of its own."""
    [caught] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt")]
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
