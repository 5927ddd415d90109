"""Sandboxes for other programs, in real ones of this machine."""

import importlib.util
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from tests.sandbox.grading.conftest import FIXED, till_task

from sweyard_sandbox.adapters.folders import download_folder, upload_folder
from sweyard_sandbox.adapters.swe_rex import RexDeployment
from sweyard_sandbox.runtimes.local.runtime import LocalRuntime
from sweyard_sandbox.tasks.task import Task

OWN_LOOP = Path(__file__).parents[3] / "examples" / "adapters" / "own_loop.py"
REPAIR = "```bash\nsed -i 's/-=/+=/' till/sums.py && cat till/sums.py\n```"


@pytest_asyncio.fixture
async def runtime() -> AsyncIterator[LocalRuntime]:
    local = LocalRuntime()
    yield local
    await local.close()


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return till_task(tmp_path / "tree")


def own_loop() -> Any:
    specification = importlib.util.spec_from_file_location("own_loop", OWN_LOOP)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("said", "reward"),
    [([REPAIR, "done"], 1.0), (["I cannot."], 0.0), (["```bash\nkill -9 -1\n```", "done"], 0.0)],
    ids=["repairs", "gives up", "kills all it sees"],
)
async def test_a_loop_of_ones_own_gets_rewards(
    task: Task, runtime: LocalRuntime, said: list[str], reward: float
) -> None:
    replies = iter(said)

    async def reply(messages: list[dict[str, str]]) -> str:
        return next(replies)

    messages, given = await own_loop().attempt(task, runtime, reply)

    assert given == reward
    assert messages[0]["content"].endswith("The total is wrong.\n")
    assert said[0] != REPAIR or FIXED.strip() in messages[2]["content"]


async def test_the_loops_own_model_runs(task: Task, runtime: LocalRuntime) -> None:
    module = own_loop()
    messages, reward = await module.attempt(task, runtime, module.reply)

    assert ([message["role"] for message in messages], reward) == (["user", "assistant"] * 2, 0.0)


class RexTimeoutError(Exception):
    """In the place of SWE-ReX's."""


def action(command: str, **more: Any) -> SimpleNamespace:
    fields = {"command": command, "session": "default", "timeout": 20.0, "check": "silent", "expect": []}
    return SimpleNamespace(**fields | more)


async def test_swe_rex_sessions_go_on_where_they_were(task: Task, runtime: LocalRuntime) -> None:
    deployment = RexDeployment(runtime, task.image, RexTimeoutError)
    assert not (await deployment.is_alive()).is_alive
    await deployment.start()
    rex = deployment.runtime
    await rex.write_file(SimpleNamespace(path="/tmp/start", content="export WORD='a b'\n"))
    await rex.create_session(SimpleNamespace(session="default", startup_source=["/tmp/start"]))
    await rex.create_session(SimpleNamespace(session="other", startup_source=[]))
    await rex.run_in_session(action('cd till; double() { echo "$1$1"; }; export MORE="$WORD\'s"'))

    kept = await rex.run_in_session(action('pwd; double "$MORE"; false'))
    other = await rex.run_in_session(action("pwd; echo ${MORE-unset}; exit 3", session="other"))
    ignored = await rex.run_in_session(action("exit 4", check="ignore"))

    assert (kept.output, kept.exit_code) == ("/testbed/till\na b'sa b's\n", 1)
    assert (other.output, other.exit_code) == ("/testbed\nunset\n", 3)
    assert ignored.exit_code is None
    with pytest.raises(RuntimeError, match="exit code 1"):
        await rex.run_in_session(action("false", check="raise"))
    with pytest.raises(RexTimeoutError, match=r"timed out after 0\.3 s"):
        await rex.run_in_session(action("echo begun; sleep 30", timeout=0.3))
    with pytest.raises(ValueError, match="interactive"):
        await rex.run_in_session(action("python", is_interactive_command=True))
    await deployment.stop()
    await deployment.stop()
    with pytest.raises(RuntimeError, match="not started"):
        _ = deployment.runtime


async def test_swe_rex_commands_and_files(task: Task, runtime: LocalRuntime, tmp_path: Path) -> None:
    deployment = RexDeployment(runtime, task.image)
    await deployment.start()
    rex = deployment.runtime
    (tmp_path / "tool.sh").write_text("#!/bin/sh\necho tool $1\n")
    (tmp_path / "tool.sh").chmod(0o755)
    await rex.upload(SimpleNamespace(source_path=str(tmp_path / "tool.sh"), target_path="/tmp/tool.sh"))
    command = SimpleNamespace(command=["/tmp/tool.sh", "a b"], timeout=20.0, env={"A": "1"}, cwd="/tmp", check=True)

    assert (await rex.execute(command)).stdout == "tool a b\n"
    assert (await rex.read_file(SimpleNamespace(path="/testbed/README.md"))).content == "till\n"
    await deployment.stop()


async def test_folders_travel_both_ways(task: Task, runtime: LocalRuntime, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "run").write_bytes(b"\0\xff")
    (source / "deep" / "run").chmod(0o755)
    async with await runtime.acquire(task.image, deadline_seconds=30.0) as sandbox:
        await upload_folder(sandbox, source, "/opt2/a b")
        await sandbox.run("ln -s deep/run '/opt2/a b/link'", timeout_seconds=20.0)
        await download_folder(sandbox, "/opt2/a b", tmp_path / "back")
        await sandbox.run("ln -s /etc/passwd '/opt2/a b/out'", timeout_seconds=20.0)
        with pytest.raises(tarfile.FilterError):
            await download_folder(sandbox, "/opt2/a b", tmp_path / "again")

    assert (tmp_path / "back" / "link").read_bytes() == b"\0\xff"
    assert (tmp_path / "back" / "deep" / "run").stat().st_mode & 0o111
