"""Programs run by the fork of a warm interpreter are what a fresh one would make of them, and learn no secret."""

import io
import json
import zipfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from sweyard_sandbox.runtime import ForksPython, Result, Sandbox
from sweyard_sandbox.runtimes.local.runtime import LocalRuntime
from sweyard_sandbox.runtimes.local.warm_python import WARM_MODULES

LOOK_AROUND = """
import json, os, signal, sys
print(json.dumps({
    "arguments": sys.argv[1:],
    "cwd": os.getcwd(),
    "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd")),
    "environment": sorted(set(os.environ) - {"LC_CTYPE", "PWD", "OLDPWD", "SHLVL", "_"}),
    "foreign": sorted(name for name in sys.modules if name.split(".")[0] not in sys.stdlib_module_names),
    "main": __name__,
    "signals": [int(signal.getsignal(signal.SIGCHLD)), signal.getsignal(signal.SIGINT) is signal.default_int_handler],
    "stdin": sys.stdin.read(),
    "user": os.getuid(),
}))
"""
FIND_SECRET = """
import sys
wanted = "".join(sys.argv[1:]).encode()
found = 0
for line in open("/proc/self/maps"):
    span, mode = line.split()[:2]
    if mode.startswith("rw") and "[v" not in line:
        begin, end = (int(number, 16) for number in span.split("-"))
        with open("/proc/self/mem", "rb") as memory:
            memory.seek(begin)
            found += memory.read(end - begin).count(wanted)
print(found)
"""


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    runtime = LocalRuntime()
    (tmp_path / "tree").mkdir()
    async with await runtime.acquire(f"dir:{tmp_path}/tree", deadline_seconds=10) as made:
        yield made
    await runtime.close()


async def run_program(sandbox: Sandbox, source: str, arguments: Sequence[str] = (), seconds: float = 20) -> Result:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("__main__.py", source)
    await sandbox.write("/tmp/program.pyz", buffer.getvalue())
    assert isinstance(sandbox, ForksPython)
    return await sandbox.run_python("/tmp/program.pyz", arguments, timeout_seconds=seconds, output_cap_bytes=1_000_000)


async def test_a_program_sees_what_it_would_see_in_an_interpreter_of_its_own(sandbox: Sandbox) -> None:
    seen = json.loads((await run_program(sandbox, LOOK_AROUND, ["a", "b c"])).text)
    await sandbox.write("/tmp/look.py", LOOK_AROUND.encode())
    expected = json.loads((await sandbox.run("exec python3 -I /tmp/look.py a 'b c'", timeout_seconds=20)).text)

    for left_behind_by_site in ("foreign", "descriptors"):
        expected.pop(left_behind_by_site)
    assert seen.pop("foreign") == ["__main__"]
    assert seen.pop("descriptors") == [0, 1, 2, 3]  # 3: the listing's own
    assert seen == expected


@pytest.mark.parametrize(
    ("source", "code", "output"),
    [
        pytest.param("print('hi')", 0, "hi\n", id="prints"),
        pytest.param("import sys; sys.exit(3)", 3, "", id="exit-code"),
        pytest.param("import sys; sys.exit()", 0, "", id="exit-without-code"),
        pytest.param("1 / 0", 1, "ZeroDivisionError", id="exception"),
        pytest.param("import os; os.kill(os.getpid(), 9)", 137, "", id="killed"),
        pytest.param("import os; os._exit(7)", 7, "", id="hard-exit"),
    ],
)
async def test_a_program_ends_as_in_an_interpreter_of_its_own(
    sandbox: Sandbox, source: str, code: int, output: str
) -> None:
    result = await run_program(sandbox, source)
    assert result.exit_code == code
    assert output in result.text
    assert (await sandbox.run("echo next", timeout_seconds=20)).text == "next\n"


FORKING = """
import os, time
print("begun", flush=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
time.sleep(60)
"""


async def test_a_program_that_does_not_end_is_killed_with_all_that_it_forked(sandbox: Sandbox) -> None:
    alone = (await sandbox.run("ls /proc | grep -c '^[0-9]'", timeout_seconds=20)).text
    result = await run_program(sandbox, FORKING, seconds=0.5)

    assert (result.timed_out, result.exit_code, result.text) == (True, -1, "begun\n")
    for _ in range(200):  # what was killed is gone once the first process has asked for it
        left = (await sandbox.run("ls /proc | grep -c '^[0-9]'", timeout_seconds=20)).text
        if left == alone:
            break
    assert left == alone


async def test_files_written_before_are_not_in_the_memory_of_a_program(sandbox: Sandbox) -> None:
    halves = ("0123456789abcdef0123", "fedcba98765432100f1e")
    control = await run_program(
        sandbox, f"kept = bytes(bytearray(b'{halves[0]}' + b'{halves[1]}'))\n{FIND_SECRET}", halves
    )
    for number in range(20):
        await sandbox.write(f"/tmp/secret-{number}", "".join(halves).encode())
    result = await run_program(sandbox, FIND_SECRET, halves)

    assert int(control.text) >= int(result.text) + 1, "the search finds what is there"
    assert int(result.text) <= 2, "the searched word itself, as argument and as bytes"


def test_only_modules_of_the_standard_library_are_warm() -> None:
    import sys

    assert set(WARM_MODULES) <= sys.stdlib_module_names
