"""What users hand in: one sentence and exit code 2, never a traceback."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import DOCUMENT, TINY

from sweyard_api.constants import API_VERSION
from sweyard_api.program import program
from sweyard_api.version import VERSION

Sweyard = Callable[..., Any]

BAD_FILES = {
    "is missing": (None, "No such file"),
    "is empty": (b"", "the file is empty"),
    "is no text": (b"\xff\xfe\x00", "no UTF-8"),
    "holds a control character": (b"a: \x00", "the sign with the number 0 at position 3 is no text"),
    "is no YAML": (b"a: [", "YAML"),
    "holds another kind": (
        b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}',
        "holds no TrainingRun, RolloutPool, ImageCache, only ConfigMap",
    ),
    "holds two runs": (
        (json.dumps(DOCUMENT) + "\n---\n" + json.dumps(DOCUMENT)).encode(),
        "holds 2 documents",
    ),
    "sets an unknown field": (
        json.dumps({**DOCUMENT, "spec": {**DOCUMENT["spec"], "stepz": 3}}).encode(),
        "stepz",
    ),
    "names no such preset": (
        json.dumps({**DOCUMENT, "spec": {**DOCUMENT["spec"], "preset": "tinny"}}).encode(),
        "tiny",
    ),
}


@pytest.mark.parametrize("command", ["resolve", "run", "eval", "demo"])
@pytest.mark.parametrize(("content", "says"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_told_in_a_sentence(
    sweyard: Sweyard, tmp_path: Path, command: str, content: bytes | None, says: str
) -> None:
    file = tmp_path / "bad.yaml"
    if content is not None:
        file.write_bytes(content)
    result = sweyard(command, "-f", file, *(["--output", tmp_path / "out"] if command != "resolve" else []))
    assert result.exit_code == 2
    assert says in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_folder_is_no_file(sweyard: Sweyard, tmp_path: Path) -> None:
    result = sweyard("validate", "-f", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "directory" in result.stderr


def test_a_file_without_an_end_is_not_read_to_it(sweyard: Sweyard) -> None:
    result = sweyard("validate", "-f", "/dev/zero")
    assert result.exit_code == 2
    assert "/dev/zero: holds more than 3 MiB" in result.stderr


def test_validate_tells_every_problem_on_a_line_of_its_own(sweyard: Sweyard, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    spec = {**DOCUMENT["spec"], "steps": -1, "rollout": {"groupSize": 0}}
    file.write_text(json.dumps({**DOCUMENT, "spec": spec}))
    result = sweyard("validate", "-f", file)
    assert result.exit_code == 2
    assert sorted("steps" in line or "groupSize" in line for line in result.stderr.splitlines()) == [True, True]


def test_a_valid_file_is_said_to_be(sweyard: Sweyard, run_file: Path) -> None:
    result = sweyard("validate", "-f", run_file)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"kubectl apply -f {run_file}, or without a cluster: {program()} run -f {run_file}" in result.stdout


def test_a_command_to_be_pasted_is_read_by_a_shell_as_it_is_meant(sweyard: Sweyard, tmp_path: Path) -> None:
    file = tmp_path / "my runs" / "it's $one.yaml"
    file.parent.mkdir()
    file.write_text(json.dumps(DOCUMENT))
    told = sweyard("validate", "-f", file).stdout.rpartition("without a cluster: ")[2]
    assert shlex.split(told) == [program(), "run", "-f", str(file)]


POOL = {"apiVersion": API_VERSION, "kind": "RolloutPool", "metadata": {"name": "a"}, "spec": {"replicas": 1}}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}
ON_GPUS = {"trainer": {"device": "cuda", "resources": {"limits": {"nvidia.com/gpu": 1}}}}
NEXT = {
    "a pool": ([POOL], "valid; next: kubectl apply -f {file}"),
    "GPUs": (
        [{**DOCUMENT, "spec": {**TINY, **ON_GPUS}}],
        "valid; next: kubectl apply -f {file}, or on a machine with its GPUs: {program} run -f {file}",
    ),
    "other kinds beside ours": (
        [POD, DOCUMENT, {"apiVersion": "apps/v1", "kind": "Deployment"}],
        "valid (skipped, for this is of other kinds: Pod x, document 3); next: kubectl apply -f {file}",
    ),
}


@pytest.mark.parametrize(("documents", "says"), NEXT.values(), ids=NEXT)
def test_what_can_be_done_with_a_valid_file_is_told(
    sweyard: Sweyard, tmp_path: Path, documents: list[dict[str, Any]], says: str
) -> None:
    file = tmp_path / "file.yaml"
    file.write_text("\n---\n".join(map(json.dumps, documents)))
    result = sweyard("validate", "-f", file)
    assert result.exit_code == 0
    assert result.stdout == f"{file}: {says.format(file=file, program=program())}\n"


@pytest.mark.parametrize("there", [True, False])
def test_trajectories_that_are_not_on_this_machine_are_warned_of(sweyard: Sweyard, tmp_path: Path, there: bool) -> None:
    chats, file = tmp_path / "chats.jsonl", tmp_path / "file.yaml"
    if there:
        chats.touch()
    spec = {"mode": "sft", "model": {"name": "a/b"}, "sft": {"datasets": [str(chats)]}, "trainer": {"device": "cpu"}}
    file.write_text(json.dumps({**DOCUMENT, "spec": spec}))
    result = sweyard("validate", "-f", file)
    assert result.exit_code == 0
    warning = f"{file}: warning: TrainingRun tiny: sft.datasets[0] is '{chats}': there is no such file of trajectories"
    assert result.stderr.startswith(warning) is not there


@pytest.mark.parametrize("status", [{}, {"phase": "Running"}], ids=["empty", "as kubectl get prints it"])
def test_a_status_in_a_file_is_warned_of_as_it_is_dropped(
    sweyard: Sweyard, tmp_path: Path, status: dict[str, str]
) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(json.dumps({**DOCUMENT, "status": status}))
    result = sweyard("validate", "-f", file)
    assert result.exit_code == 0
    assert ("warning: TrainingRun tiny: status is the operator's to write" in result.stderr) is bool(status)


def test_resolve_prints_what_a_preset_fills_in(sweyard: Sweyard, run_file: Path) -> None:
    result = sweyard("resolve", "-f", run_file)
    assert result.exit_code == 0
    assert "type: short" in result.stdout  # the preset's agent
    assert "clipLow: 0.2" in result.stdout  # a default


def test_numbers_are_read_as_kubectl_reads_them(sweyard: Sweyard, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(
        json.dumps(DOCUMENT).replace('"preset": "tiny"', '"preset": "tiny", "optimizer": {"learningRate": 1e-6}')
    )
    assert "learningRate: 1.0e-06" in sweyard("resolve", "-f", file).stdout


def test_each_preset_is_listed_with_its_summary(sweyard: Sweyard) -> None:
    lines = sweyard("presets").stdout.splitlines()
    assert any(re.match(r"tiny  +A small model", line) for line in lines)


def test_an_interrupt_while_a_command_loads_leaves_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run([sys.executable, "-m", "sweyard_cli", "presets"], env=environment, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_the_version_is_told_and_is_that_of_the_package_and_of_the_chart(sweyard: Sweyard) -> None:
    result = sweyard("--version")
    assert (result.exit_code, result.stdout) == (0, f"sweyard {VERSION}\n")
    checkout = Path(__file__).parents[2]
    assert tomllib.loads((checkout / "pyproject.toml").read_text())["project"]["version"] == VERSION
    assert f"appVersion: {VERSION}\n" in (checkout / "charts" / "sweyard" / "Chart.yaml").read_text()


EXAMPLES = Path(__file__).parents[2] / "examples"
RUN, CACHE = str(EXAMPLES / "tiny" / "trainingrun.yaml"), str(EXAMPLES / "pool" / "imagecache.yaml")
MISUSES = {
    "watch without a run": (["watch"], "--output DIR"),
    "watch of two runs": (["watch", "tiny", "--output", "x"], "--output DIR"),
    "watch of no directory": (["watch", "--output", "/nonexistent"], "/nonexistent"),
    "watch of a directory that is no run's": (["watch", "--output", "/proc"], "/proc is no directory of a run"),
    "a data set's name that is a path": (
        ["tasks", "make", "--name", "../x", "--package", "x"],
        "'../x' must be letters",
    ),
    "fewer tasks than none": (["tasks", "make", "--name", "x", "--train", "-1"], "greater than or equal to 0"),
    "no process to make tasks": (
        ["tasks", "make", "--name", "x", "--jobs", "0"],
        "greater than or equal to 1",
    ),
    "report of no directory": (["report", "/nonexistent"], "/nonexistent holds no run"),
    "unknown kind of bug": (["tasks", "make", "--name", "x", "--kinds", "typo"], "typo"),
    "make without a source": (["tasks", "make", "--name", "x"], "--package NAME==VERSION"),
    "make without a name": (["tasks", "make"], "--name"),
    "an empty output of a run": (["run", "-f", "x", "--output", ""], "--output is empty"),
    "an empty output of an evaluation": (["eval", "x", "--output", ""], "--output is empty"),
    "an empty output of a demo": (["demo", "--output", ""], "--output is empty"),
    "watch of an empty output": (["watch", "--output", ""], "--output is empty"),
    "an empty output of a report": (["report", "x", "--output", ""], "--output is empty"),
    "a report into a directory": (["report", "x", "-o", "/"], "--output / is a directory: name the file in it"),
    "a run into a file": (["run", "-f", "x", "-d", __file__], f"--output {__file__} is a file, and a run is kept in"),
    "a run below a file": (["run", "-f", "x", "-d", f"{__file__}/a/b"], f"cannot be made: {__file__} is a file"),
    "a run's name of two lines": (["watch", "tiny\n"], r"NAME is 'tiny\n': a name on a cluster has lower-case"),
    "no run's name": (["status", ""], "NAME is ''"),
    "a cache's name of two lines": (["cache", "show", "a\nb"], r"NAME is 'a\nb'"),
    "a namespace of two lines": (["status", "-n", "a\nb"], r"--namespace is 'a\nb'"),
    "a data set's name that no object has": (["tasks", "push", "x", "--name", "My_Tasks"], "--name is 'My_Tasks'"),
    "a part of a run that there is not": (["logs", "tiny", "--of", "nobody"], "--of nobody: there is no such part"),
    "a time that is none": (["logs", "tiny", "--since", "soon"], "--since soon: write it like 90s, 10m or 2h"),
    "logs of no run": (["logs", "-d", "/proc"], "/proc"),
    "a bandwidth without a unit": (["cache", "plan", "-f", "x", "--bandwidth", "9"], "write it like 1Gbit or 100MB"),
    "no node at all": (["cache", "plan", "-f", "x", "--nodes", "0"], "greater than or equal to 1"),
    "two choices of weights": (["export", "x", "--best", "--latest", "--to", "y"], "give one of them"),
    "an export over what is there": (["export", "x", "--to", "/proc"], "--to /proc is there already"),
    "an outcome that there is not": (["rollouts", "list", "x", "--outcome", "won"], "--outcome won: there is none"),
    "names of what has none": (["doctor", "-o", "name"], "findings have no names: take -o json or -o yaml"),
    "a page for anyone who has a token": (["ui", "--anyone", "--token", "x"], "exclude each other"),
    "an empty file": (["validate", "-f", ""], "a path is empty, as a variable is that was never set"),
    "a page with an empty token": (["ui", "--token", " \n"], "the token is empty"),
    "a namespace without a cluster": (["ui", "-n", "team"], "add --cluster"),
    "a page on a port that there is not": (["ui", "--port", "70000"], "less than or equal to 65535"),
    "a run resumed nowhere": (["resume"], "name a run on the cluster, or give --output DIR"),
    "a directory resumed that is no run's": (["resume", "-d", "/proc"], "/proc holds no trainingrun.yaml"),
    "local sandboxes on a cluster": (["resume", "tiny", "--allow-unisolated"], "give --output DIR"),
    "a command that there is not": (["runn"], "No such command 'runn'"),
    "a run in no phase": (["run", "-f", RUN, "--phase", ""], "has no phase ''"),
    "a report of another kind": (["report", "x", "-o", "x.pdf"], "a report is HTML (.html), Markdown (.md)"),
    "a report of an empty path": (["report", ""], "a path is empty, as a variable is that was never set"),
    "weights of an empty path": (["eval", RUN, "--weights", ""], "a path is empty"),
    "an export of an empty path": (["export", "", "--to", "x"], "a path is empty"),
    "an export to an empty path": (["export", "x", "--to", ""], "a path is empty"),
    "attempts of an empty path": (["rollouts", "list", ""], "a path is empty"),
    "a page of an empty path": (["ui", ""], "a path is empty"),
    "a page on an empty address": (["ui", "/", "--port", "0", "--host", ""], "--host is empty"),
    "a page on an address that is none": (["ui", "/", "--port", "0", "--host", ".."], "--host ..: is no address of"),
    "a plan without room": (
        ["cache", "plan", "-f", CACHE, "--nodes", "2", "--budget", "-5Gi"],
        "is no quantity above zero",
    ),
    "names of a plan": (["cache", "plan", "-f", CACHE, "--nodes", "2", "-o", "name"], "a plan has no names"),
    "a mirror nowhere": (
        ["cache", "mirror", "-f", CACHE, "--to", ""],
        "--to : must be where images lie: host[:port][/prefix]",
    ),
    "a mirror with a scheme": (["cache", "mirror", "-f", CACHE, "--to", "https://r.example/x"], "without https://"),
    "times of a log without any": (["logs", "-d", "x", "--since", "5m"], "--of and --since are of runs on a cluster"),
    "a run of two places": (["stop", "-d", "x", "-n", "team"], "--namespace is of a run on the cluster, and --output"),
    "a shell in a sandbox without a name": (["attach", ""], "SANDBOX is ''"),
    "a doctor of no file": (["doctor", "-f", "/nonexistent"], "/nonexistent: No such file"),
    "a file that is named as if it were a data set": (
        ["tasks", "list", "Makefile"],
        "in this directory say ./Makefile",
    ),
    "check of no data set": (["tasks", "check", "nosuch"], "sweyard tasks make --name nosuch --repo DIR`"),
}


@pytest.mark.parametrize(("arguments", "says"), MISUSES.values(), ids=MISUSES)
def test_misuse_is_told_in_a_sentence(
    sweyard: Sweyard, arguments: list[str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(EXAMPLES.parent)
    result = sweyard(*arguments)
    assert result.exit_code == 2
    assert says in result.stderr


@pytest.mark.parametrize(
    ("report", "says"),
    [
        ("[]", "progress.json holds no JSON object"),
        ('{"step": "x"}', "progress.json holds no report of a run: it is damaged, or another program's"),
        ('{"step": null}', "progress.json holds no report of a run"),
    ],
)
def test_watching_a_damaged_run_is_told_in_a_sentence(sweyard: Sweyard, tmp_path: Path, report: str, says: str) -> None:
    (tmp_path / "progress.json").write_text(report)
    result = sweyard("watch", "--output", tmp_path)
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_report_of_a_run_whose_config_is_none_is_told_in_a_sentence(
    sweyard: Sweyard, make_run: Callable[..., Path]
) -> None:
    run = make_run()
    (run / "config.yaml").write_text("{model: {}}")
    result = sweyard("report", run)
    assert (result.exit_code, result.stderr) == (2, "error: the run's config is damaged, or another program's\n")


def test_options_of_runs_here_are_refused_on_a_cluster(sweyard: Sweyard, run_file: Path) -> None:
    result = sweyard("run", "-f", run_file, "--cluster", "--output", "x")
    assert result.exit_code == 2
    assert "leave out --cluster" in result.stderr


def test_a_report_that_cannot_be_written_names_the_file(
    sweyard: Sweyard, make_run: Callable[..., Path], tmp_path: Path
) -> None:
    result = sweyard("report", make_run(), "-o", tmp_path / "missing" / "report.html")
    assert result.exit_code == 2
    assert "missing/report.html: No such file" in result.stderr


def test_a_terminal_without_our_signs_is_told_the_rest(make_run: Callable[..., Path]) -> None:
    run = make_run(progress={"phase": "finished", "step": 2, "totalSteps": 2, "message": "done"})
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "sweyard_cli", "watch", "--output", run]
    (run / "run.lock").touch()
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stderr) == (0, "")
    assert "Succeeded ? step 2/2" in told.stdout
