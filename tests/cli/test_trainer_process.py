"""A trainer as a child process: followed, stopped, and its end told. The trainers here are small scripts."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sweyard_api.program import program
from sweyard_api.yaml_text import load_document
from sweyard_cli.errors import UserError
from sweyard_cli.local.lock import is_locked
from sweyard_cli.local.run import run_locally
from sweyard_cli.local.trainer_process import TrainerProcess, forwarded_signals, stopped_with, trainer_command
from sweyard_cli.view.local_source import LocalRunSource

REPORT = """
import json, pathlib, sys
output = pathlib.Path(sys.argv[1])
def report(**fields):
    partial = output / "progress.tmp"
    partial.write_text(json.dumps(fields))
    partial.replace(output / "progress.json")
"""
SUCCEEDS = REPORT + 'report(phase="finished", step=2, totalSteps=2, metrics={"rewardMean": 0.5}, message="finished")'
FAILS = 'import sys; print("warning: odd"); sys.exit("error: dataset: nosuch is nowhere; make it")'
CRASHES = 'raise RuntimeError("a bug")'
FILLS_THE_DISK = """
import os, pathlib, sys
with open(pathlib.Path(sys.argv[1]) / "full", "wb", buffering=0) as file:
    try:
        while file.write(bytes(4096)):
            pass
    except OSError:
        os._exit(1)
"""
STOPS = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
print("ready", flush=True)
signal.pause()
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: None)
print("ready", flush=True)
while True:
    time.sleep(60)
"""


def start(script: str, output: Path) -> TrainerProcess:
    return TrainerProcess([sys.executable, "-c", script, str(output)], output)


def run(script: str, output: Path) -> tuple[int, str]:
    """Exit code, and what was told in a pipe."""
    console = Console(file=StringIO(), width=10_000)
    process = start(script, output)
    code = run_locally(process, "tiny", Path("t.yaml"), output, console, [("next", "do it")], poll_seconds=0.01)
    assert isinstance(console.file, StringIO)
    return code, console.file.getvalue()


def wait_until_ready(process: TrainerProcess) -> None:
    while "ready" not in process.log.read_text():
        assert process.popen.poll() is None
        time.sleep(0.01)


def test_a_run_that_ends_well_is_followed_by_figures_files_and_the_next_command(make_run: Callable[..., Path]) -> None:
    run_directory = make_run()
    code, told = run(SUCCEEDS, run_directory)
    assert code == 0
    assert "Succeeded · step 2/2 · reward 0.500" in told
    for part in (
        "50 %",
        "2 of 4",
        "mean reward: 0.250 in step 1, 0.750 in step 2",
        "curve.png",
        "report.html",
        "next   # do it",
    ):
        assert part in told
    assert (run_directory / "report.html").exists()


def test_a_failure_tells_its_sentence_and_the_log(tmp_path: Path) -> None:
    code, told = run(FAILS, tmp_path / "out")
    assert code == 1
    assert "failed with exit code 1: dataset: nosuch is nowhere; make it" in told
    assert str(tmp_path / "out" / "run.log") in told


def test_a_crash_tells_the_last_line_of_its_traceback(tmp_path: Path) -> None:
    code, told = run(CRASHES, tmp_path)
    assert code == 1
    assert "RuntimeError: a bug" in told
    assert "Traceback" in (tmp_path / "run.log").read_text()


def test_the_exit_code_of_a_user_s_mistake_is_kept(tmp_path: Path) -> None:
    code, told = run('import sys; print("error: no"); sys.exit(2)', tmp_path)
    assert (code, "failed with exit code 2: no" in told) == (2, True)


def test_a_sentence_of_an_earlier_life_is_not_told_again(tmp_path: Path) -> None:
    run(FAILS, tmp_path)
    _, told = run(CRASHES, tmp_path)
    assert "nosuch" not in told
    assert "nosuch" in (tmp_path / "run.log").read_text()


def test_a_trainer_that_said_nothing_is_said_to_have(tmp_path: Path) -> None:
    code, told = run("raise SystemExit(3)", tmp_path)
    assert (code, "it said nothing" in told) == (3, True)


def test_a_trainer_killed_for_memory_is_recognised(tmp_path: Path) -> None:
    code, told = run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", tmp_path)
    assert code == 128 + signal.SIGKILL
    assert "memory" in told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_asks_the_trainer_for_a_checkpoint(tmp_path: Path, number: signal.Signals) -> None:
    process = start(STOPS, tmp_path)
    told: list[str] = []
    with forwarded_signals(process, told.append):
        wait_until_ready(process)
        os.kill(os.getpid(), number)
        assert process.popen.wait() == 143
    assert process.is_stopped
    assert "checkpoint" in told[0]
    assert LocalRunSource("tiny", tmp_path, process).snapshot().phase == "Stopped"


def test_a_second_signal_ends_a_trainer_that_does_not_stop(tmp_path: Path) -> None:
    process = start(STUBBORN, tmp_path)
    with forwarded_signals(process, lambda _: None):
        wait_until_ready(process)
        os.kill(os.getpid(), signal.SIGINT)
        assert process.popen.poll() is None
        os.kill(os.getpid(), signal.SIGINT)
        assert process.popen.wait() == -signal.SIGKILL


def test_signals_are_as_they_were_afterwards(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    process = start("", tmp_path)
    with forwarded_signals(process, lambda _: None):
        assert signal.getsignal(signal.SIGTERM) is not before
    process.popen.wait()
    assert signal.getsignal(signal.SIGTERM) is before


class Gone(StringIO):
    """A terminal that hangs up once the trainer is under way."""

    def __init__(self, process: TrainerProcess) -> None:
        super().__init__()
        self._process = process

    def write(self, text: str) -> int:
        wait_until_ready(self._process)
        raise OSError(errno.EIO, "the terminal is gone")


def test_a_trainer_that_nobody_follows_any_more_is_stopped(tmp_path: Path) -> None:
    process = start(STOPS, tmp_path)
    with pytest.raises(OSError, match="gone"):
        run_locally(process, "tiny", Path("t.yaml"), tmp_path, Console(file=Gone(process)), [])
    assert process.popen.returncode == 143
    assert is_locked(tmp_path) is False


@pytest.mark.parametrize("command", ["run", "eval"])
def test_no_trainer_outlives_a_command_whose_first_word_cannot_be_told(
    tmp_path: Path, run_file: Path, command: str
) -> None:
    with Path("/dev/full").open("w") as full:
        begun = [sys.executable, "-m", "sweyard_cli", command, "-f", run_file, "--output", tmp_path / "out"]
        told = subprocess.run(begun, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (told.returncode, "no space left" in told.stderr) == (2, True)
    assert is_locked(tmp_path / "out") is False


def test_a_signal_that_cannot_be_told_stops_the_trainer_all_the_same(tmp_path: Path) -> None:
    """A terminal that hangs up is gone when its signal comes."""
    process = start(STOPS, tmp_path)
    wait_until_ready(process)

    def say(_text: str) -> None:
        raise OSError(errno.EIO, "the terminal is gone")

    with pytest.raises(OSError, match="gone"), forwarded_signals(process, say), stopped_with(process):
        os.kill(os.getpid(), signal.SIGHUP)
    assert process.popen.returncode == 143


def test_a_stopped_run_tells_how_to_go_on(tmp_path: Path) -> None:
    code, told = run("raise SystemExit(143)", tmp_path)
    assert code == 143
    assert f"{program()} run -f t.yaml --output {tmp_path}" in told


@pytest.mark.parametrize(
    ("kept", "stands"),
    [
        (["warmup-120"], "in the warm-up after step 120 of 400"),
        (["warmup-120.1", "warmup-90"], "in the warm-up after step 120 of 400"),
        (["step-0", "warmup-400"], "after the warm-up"),
        (["step-9", "step-10.2", "step-11.0a1b2c3d.partial"], "after step 10"),
    ],
    ids=["in the warm-up", "twice in the warm-up", "after it", "in the steps"],
)
def test_a_run_that_ended_early_tells_where_it_goes_on(tmp_path: Path, kept: Sequence[str], stands: str) -> None:
    (tmp_path / "config.yaml").write_text("warmup: {steps: 400}")
    for name in kept:
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
        (tmp_path / "checkpoints" / name / "COMPLETE").touch()
    assert f"stopped {stands}; to go on: {program()} run" in run("raise SystemExit(143)", tmp_path)[1]
    crashed = run(CRASHES, tmp_path)[1]
    assert f"the last checkpoint is {stands}; to go on from there: {program()} run" in crashed


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ("{}", "there is no checkpoint yet; to start from the beginning: "),
        ("checkpoint: {url: 's3://b/c'}", "to go on from the last checkpoint, if there is one: "),
    ],
    ids=["on the volume", "in a bucket"],
)
def test_a_run_whose_directory_has_no_checkpoint_says_so(tmp_path: Path, config: str, told: str) -> None:
    (tmp_path / "config.yaml").write_text(config)
    (tmp_path / "checkpoints" / "warmup-3").mkdir(parents=True)
    assert f"stopped; {told}{program()} run" in run("raise SystemExit(143)", tmp_path)[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_signal_after_the_last_work_leaves_a_run_finished(
    make_run: Callable[..., Path], number: signal.Signals
) -> None:
    code, told = run(f"{SUCCEEDS}\nimport os\nos.kill(os.getpid(), {number.value})", make_run())
    assert code == 0
    assert "Succeeded" in told
    assert "stopped" not in told.lower()


def test_a_trainer_that_only_has_to_end_is_not_asked_to_stop(tmp_path: Path) -> None:
    process = start(f"{SUCCEEDS}\n{STOPS}", tmp_path)
    told: list[str] = []
    with forwarded_signals(process, told.append):
        wait_until_ready(process)
        os.kill(os.getpid(), signal.SIGINT)
        assert process.popen.poll() is None
        os.kill(os.getpid(), signal.SIGINT)
        process.popen.wait()
    assert "the run is finished" in told[0]
    assert not process.is_stopped


def test_two_trainers_never_work_on_one_run(tmp_path: Path) -> None:
    process = start(STOPS, tmp_path)
    wait_until_ready(process)
    assert is_locked(tmp_path)
    with pytest.raises(UserError, match="another process is at work"):
        start(SUCCEEDS, tmp_path)
    process.stop()
    process.popen.wait()
    assert is_locked(tmp_path) is False
    assert start(SUCCEEDS, tmp_path).exit_code == 0


def test_what_happens_to_a_run_is_seen_from_its_directory_alone(tmp_path: Path) -> None:
    source = LocalRunSource("tiny", tmp_path)
    assert (source.snapshot().phase, source.snapshot().message) == ("Starting", "")  # nothing is known of it
    process = start(STOPS, tmp_path)
    wait_until_ready(process)
    assert source.snapshot().message == "making the initial model, or fetching it"
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "COMPLETE").touch()
    assert source.snapshot().message.startswith("loading the program")
    (tmp_path / "progress.json").write_text(json.dumps({"phase": "rl", "step": 3, "totalSteps": 9}))
    assert (source.snapshot().phase, source.snapshot().step) == ("Running", 3)
    process.kill()
    process.popen.wait()
    assert source.snapshot().phase == "Stopped"
    assert "ready" in source.snapshot().message  # the log's last words
    (tmp_path / "progress.json").write_text(json.dumps({"phase": "finished"}))
    assert source.snapshot().phase == "Succeeded"


def test_a_final_report_is_not_the_end_while_the_process_lives(tmp_path: Path) -> None:
    process = start(STOPS, tmp_path)
    wait_until_ready(process)
    (tmp_path / "progress.json").write_text(json.dumps({"phase": "finished"}))
    assert LocalRunSource("tiny", tmp_path, process).snapshot().phase == "Finishing"
    process.kill()
    process.popen.wait()


def test_the_report_of_an_earlier_life_is_no_news_of_this_one(tmp_path: Path) -> None:
    (tmp_path / "progress.json").write_text(json.dumps({"phase": "rl", "step": 4, "totalSteps": 6}))
    process = start(STOPS, tmp_path)
    wait_until_ready(process)
    source = LocalRunSource("tiny", tmp_path, process)
    assert (source.snapshot().phase, source.snapshot().step) == ("Starting", 0)
    (tmp_path / "progress.json").write_text(json.dumps({"phase": "rl", "step": 5, "totalSteps": 6}))
    assert (source.snapshot().phase, source.snapshot().step) == ("Running", 5)
    process.kill()
    process.popen.wait()


def test_the_command_of_the_trainer_names_file_and_directory() -> None:
    command = trainer_command(Path("a.yaml"), Path("out"), [Path("sets")], allow_unisolated=True)
    assert command[1:] == [
        *("-m", "sweyard_trainer.local", "-f", "a.yaml", "--output", "out"),
        *("--datasets", "sets", "--allow-unisolated"),
    ]
    assert "/dev/stdin" in trainer_command(None, Path("out"), [], allow_unisolated=False)


def test_a_run_that_is_in_no_file_is_the_trainers_standard_input(tmp_path: Path) -> None:
    script = "import pathlib; print(pathlib.Path('/dev/stdin').read_text())"
    document = {"metadata": {"name": "t\u00efny"}, "spec": {"steps": 3}}
    process = TrainerProcess([sys.executable, "-c", script], tmp_path, document)
    assert process.exit_code == 0
    assert load_document(process.log.read_text()) == document


def test_the_real_trainer_takes_our_command_and_its_refusal_is_told(
    sweyard: Callable[..., Any], tmp_path: Path, run_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWEYARD_CACHE", str(tmp_path / "cache"))
    run_file.write_text(run_file.read_text().replace('"dataset": "tiny"', '"dataset": "nosuch-set"'))
    result = sweyard("run", "-f", run_file, "--output", tmp_path / "out", "--datasets", tmp_path)
    assert result.exit_code == 2
    looked = f"{tmp_path} or {tmp_path / 'cache' / 'datasets'}"
    told = "".join(result.stdout.split())
    assert "".join(f"failed with exit code 2: dataset 'nosuch-set' is not in {looked};".split()) in told
    assert (tmp_path / "out" / "config.yaml").exists()


def test_a_log_that_cannot_hold_the_reason_leaves_it_to_be_seen_by_the_disk(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], check=True)
    try:
        code, told = run(FILLS_THE_DISK, tmp_path)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
    assert code == 1
    assert f"no space left for {tmp_path}" in told


def test_a_crash_is_told_without_the_ranks_that_pytorch_writes(tmp_path: Path) -> None:
    _, told = run("import sys; sys.exit('[rank0]: Traceback\\n[rank0]: ValueError: odd')", tmp_path)
    assert "exit code 1: ValueError: odd\n" in told


@pytest.mark.parametrize(("script", "is_said"), [(CRASHES, True), (FAILS, False)], ids=["crash", "fault of the user"])
def test_how_to_go_on_is_said_where_it_can_help(tmp_path: Path, script: str, is_said: bool) -> None:
    script = script if is_said else script.replace("sys.exit(", "print(") + "; sys.exit(2)"
    assert ("sweyard run -f t.yaml" in run(script, tmp_path)[1]) is is_said


def test_a_fault_of_the_user_is_told_with_the_checkpoint_that_it_left(tmp_path: Path) -> None:
    saved = tmp_path / "checkpoints" / "step-3"
    saved.mkdir(parents=True)
    (saved / "COMPLETE").touch()
    told = run(FAILS.replace("sys.exit(", "print(") + "; sys.exit(2)", tmp_path)[1]
    assert "the last checkpoint is after step 3; once that is mended it goes on from there: " in told
