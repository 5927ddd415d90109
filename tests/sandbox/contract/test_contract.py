"""What every runtime with a real shell must do alike."""

import asyncio
import signal

import pytest

from sweyard_sandbox.errors import InfrastructureError
from sweyard_sandbox.runtime import Runtime, Sandbox

LEFT_OVERS = """
for file in /proc/[0-9]*/environ; do
  grep -qs "SWEYARD_COMMAND=${SWEYARD_COMMAND%???????}" $file || continue
  grep -qs "SWEYARD_COMMAND=$SWEYARD_COMMAND" $file || tr '\\0' ' ' <${file%environ}cmdline
done"""


async def run_text(sandbox: Sandbox, command: str, timeout_seconds: float = 20) -> str:
    result = await sandbox.run(command, timeout_seconds=timeout_seconds)
    assert not result.timed_out, result
    return result.text


@pytest.mark.parametrize(
    ("command", "exit_code", "output"),
    [
        pytest.param("echo hi", 0, b"hi\n", id="a-line"),
        pytest.param("true", 0, b"", id="nothing"),
        pytest.param("printf 'no newline'", 0, b"no newline", id="no-final-newline"),
        pytest.param("printf '\\n\\n'", 0, b"\n\n", id="only-newlines"),
        pytest.param("exit 3", 3, b"", id="exit-code"),
        pytest.param("false", 1, b"", id="false"),
        pytest.param("kill -TERM $$", 143, b"", id="death-by-signal"),
        pytest.param("echo a; echo b >&2; echo c", 0, b"a\nb\nc\n", id="stderr-in-order"),
        pytest.param("printf '\\000\\001\\377'", 0, b"\0\1\xff", id="binary"),
        pytest.param("printf '%s\\n' 'tücher 東京 \U0001f40d'", 0, "tücher 東京 \U0001f40d\n".encode(), id="unicode"),
        pytest.param("cat <<'END'\n  $x `y` \\z\n\nEND", 0, b"  $x `y` \\z\n\n", id="here-document"),
        pytest.param("# only a comment", 0, b"", id="comment"),
        pytest.param("", 0, b"", id="empty"),
        pytest.param("echo 'a\n\nb'\n\n", 0, b"a\n\nb\n", id="trailing-newlines"),
        pytest.param("printf 'a\\r\\n'", 0, b"a\r\n", id="carriage-return"),
        pytest.param("echo '\\n\\t\\\\'|cat", 0, None, id="backslashes"),
        pytest.param("echo $0", 0, b"sh\n", id="the-shell-is-sh"),
    ],
)
async def test_output_and_exit_code_are_exact(
    sandbox: Sandbox, command: str, exit_code: int, output: bytes | None
) -> None:
    result = await sandbox.run(command, timeout_seconds=20)
    assert result.exit_code == exit_code
    if output is not None:
        assert result.output == output
    assert not result.truncated
    assert not result.timed_out
    assert not result.oom_killed


async def test_a_syntax_error_is_the_commands_own(sandbox: Sandbox) -> None:
    result = await sandbox.run("echo 'unfinished", timeout_seconds=20)
    assert result.exit_code == 2 or result.exit_code == 1
    assert await run_text(sandbox, "echo next") == "next\n"


async def test_a_missing_program_is_127(sandbox: Sandbox) -> None:
    result = await sandbox.run("no-such-program", timeout_seconds=20)
    assert result.exit_code == 127
    assert b"not found" in result.output


async def test_a_marks_text_in_the_output_is_output(sandbox: Sandbox) -> None:
    text = "\n-mark-x\n-end-x\nbody c 0\nexit c 0 0\nhello 1 /tmp\n"
    assert await run_text(sandbox, f"printf '%s' '{text}'") == text


@pytest.mark.parametrize("size", [0, 1, 511, 512, 999, 1000, 1001, 1023, 1024, 1025, 70_000, 10_000_000])
async def test_output_is_cut_at_the_cap(sandbox: Sandbox, size: int) -> None:
    result = await sandbox.run(f"head -c {size} /dev/zero", timeout_seconds=30, output_cap_bytes=1_000)
    assert result.output == bytes(min(size, 1_000))
    assert result.truncated == (size > 1_000)
    assert result.exit_code == 0


async def test_ten_megabytes_pass_whole_under_a_larger_cap(sandbox: Sandbox) -> None:
    result = await sandbox.run("yes 0123456 | head -c 10000000", timeout_seconds=60, output_cap_bytes=10_000_000)
    assert result.output == b"0123456\n" * 1_250_000
    assert not result.truncated


async def test_what_follows_the_cap_is_drained_and_not_an_error(sandbox: Sandbox) -> None:
    result = await sandbox.run(
        "head -c 20000000 /dev/zero; echo $? >&2; exit 5", timeout_seconds=60, output_cap_bytes=100
    )
    assert (result.exit_code, len(result.output), result.truncated) == (5, 100, True)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("sleep 60", id="sleep"),
        pytest.param("trap '' TERM; sleep 60; sleep 60", id="ignores-term"),
        pytest.param("sleep 60 & sleep 60 & wait", id="children"),
        pytest.param("sh -c 'sh -c \"sleep 60\"; true'; true", id="grandchildren"),
        pytest.param("(trap '' TERM; sleep 60) & sleep 60", id="child-ignores-term"),
        pytest.param("setsid sh -c 'sleep 60; true' & sleep 60", id="child-in-its-own-session"),
        pytest.param("yes", id="endless-output"),
        pytest.param("while :; do :; done", id="busy-loop"),
    ],
)
async def test_a_timeout_kills_everything_the_command_started(sandbox: Sandbox, command: str) -> None:
    result = await sandbox.run(f"echo begun; {command}", timeout_seconds=0.4)
    assert result.timed_out
    assert result.exit_code == -1
    assert result.output.startswith(b"begun\n")
    assert await run_text(sandbox, LEFT_OVERS) == ""


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("cat", id="cat"),
        pytest.param("python3 -c 'input()'", id="python-input"),
        pytest.param("read x", id="shell-read"),
        pytest.param("git ls-remote https://user@127.0.0.1:9/x.git", id="git-password"),
        pytest.param("sort", id="sort"),
    ],
)
async def test_commands_that_read_standard_input_end_at_once(sandbox: Sandbox, command: str) -> None:
    result = await sandbox.run(command, timeout_seconds=20)
    assert not result.timed_out
    assert result.exit_code != 127, result.text
    echo = await sandbox.run("echo after; exit 4", timeout_seconds=20)
    assert (echo.exit_code, echo.output) == (4, b"after\n")


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("sleep 30 & echo now", id="background-child"),
        pytest.param("(sleep 30 &); echo now", id="double-fork"),
        pytest.param("setsid sleep 30 & echo now", id="own-session"),
        pytest.param("nohup sleep 30 & echo now", id="nohup"),
        pytest.param("(while :; do echo noise; sleep 0.01; done) & sleep 0.1; echo now", id="noisy"),
    ],
)
async def test_background_children_do_not_hold_the_result(sandbox: Sandbox, command: str) -> None:
    result = await sandbox.run(command, timeout_seconds=10)
    assert not result.timed_out
    assert result.exit_code == 0
    assert b"now\n" in result.output
    for _ in range(3):
        assert await run_text(sandbox, "sleep 0.05; echo clean") == "clean\n"


async def test_background_children_live_on_and_may_write(sandbox: Sandbox) -> None:
    await sandbox.run("rm -f /tmp/alive; (sleep 0.5; echo late; echo late; echo yes >/tmp/alive) &", timeout_seconds=10)
    assert await run_text(sandbox, "sleep 1; cat /tmp/alive") == "yes\n"


async def test_output_before_the_end_is_whole_though_a_child_holds_the_pipe(sandbox: Sandbox) -> None:
    result = await sandbox.run("sleep 5 & head -c 700000 /dev/zero; printf end", timeout_seconds=20)
    assert result.output == bytes(700_000) + b"end"


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("kill -9 $PPID; echo survived", id="parent-shell"),
        pytest.param("kill 0", id="own-group"),
        pytest.param("kill -9 0", id="own-group-by-kill"),
    ],
)
async def test_a_command_may_kill_its_surroundings(sandbox: Sandbox, command: str) -> None:
    result = await sandbox.run(command, timeout_seconds=20)
    assert result.exit_code != 0 or b"survived" in result.output
    assert not result.timed_out
    assert await run_text(sandbox, "echo fine") == "fine\n"


async def test_interrupts_reach_commands_as_usual(sandbox: Sandbox) -> None:
    code = "import os,signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    assert await run_text(sandbox, f"python3 -c '{code}'") == "True\n"
    ignored = int((await run_text(sandbox, "grep SigIgn /proc/self/status")).split()[1], 16)
    assert not [
        name for name in ("SIGINT", "SIGQUIT", "SIGPIPE", "SIGTERM") if ignored >> (signal.Signals[name] - 1) & 1
    ]


async def test_environment_and_directory_are_of_one_command(sandbox: Sandbox) -> None:
    value = 'it\'s "quoted" $HOME `x`\nsecond line \\'
    result = await sandbox.run('printf \'%s|%s\' "$A_1" "$(pwd)"', timeout_seconds=20, env={"A_1": value}, cwd="/usr")
    assert result.text == f"{value}|/usr"
    again = await sandbox.run('printf \'%s|%s\' "$A_1" "$(pwd)"', timeout_seconds=20)
    assert again.text.startswith("|")
    assert not again.text.endswith("/usr")


async def test_shell_state_does_not_leak_into_the_next_command(sandbox: Sandbox) -> None:
    await sandbox.run("X=1; export X; cd /; umask 077; set -e; exec 7</dev/null", timeout_seconds=20)
    assert await run_text(sandbox, "echo ${X:-unset}") == "unset\n"


async def test_a_missing_directory_is_the_commands_failure(sandbox: Sandbox) -> None:
    result = await sandbox.run("echo no", timeout_seconds=20, cwd="/no/such/directory")
    assert result.exit_code == 126
    assert b"/no/such/directory" in result.output


async def test_commands_run_as_another_user(sandbox: Sandbox, is_root: bool) -> None:
    if not is_root:
        refused = await sandbox.run("id -un", timeout_seconds=20, user="nobody")
        assert refused.exit_code != 0
        return
    result = await sandbox.run("id -un; echo $X; exit 6", timeout_seconds=20, user="nobody", env={"X": "kept"})
    assert (result.exit_code, result.text) == (6, "nobody\nkept\n")
    by_number = await sandbox.run("id -u", timeout_seconds=20, user="1234")
    assert by_number.text == "1234\n"
    timed_out = await sandbox.run("sleep 60", timeout_seconds=0.3, user="nobody")
    assert timed_out.timed_out


async def test_writing_replaces_and_can_make_executables(sandbox: Sandbox) -> None:
    await sandbox.write("/tmp/tool", b"long long long")
    await sandbox.write("/tmp/tool", b"#!/bin/sh\necho ran\n", mode=0o755)
    assert await run_text(sandbox, "/tmp/tool") == "ran\n"


async def test_a_mode_is_the_files_own(sandbox: Sandbox) -> None:
    await sandbox.write("/testbed/new dir/sub/it's a file", b"x", mode=0o600)
    told = await sandbox.run('stat -c %a "/testbed/new dir/sub/it\'s a file"', timeout_seconds=20)
    assert told.text == "600\n"


async def test_what_the_kernel_refuses_to_write_is_said_as_by_a_local_open(sandbox: Sandbox) -> None:
    with pytest.raises(PermissionError):
        await sandbox.write("/proc/sys/kernel/ostype", b"x")
    assert await run_text(sandbox, "echo next") == "next\n"


async def test_a_very_long_command_runs(sandbox: Sandbox) -> None:
    words = "x" * 300_000
    assert await run_text(sandbox, f"cat <<END | wc -c\n{words}\nEND") == "300001\n"


async def test_two_hundred_quick_commands(sandbox: Sandbox) -> None:
    for number in range(200):
        assert (await sandbox.run(f"echo {number}; exit {number % 100}", timeout_seconds=20)).output == b"%d\n" % number


async def test_a_timeout_counts_from_the_commands_turn(sandbox: Sandbox) -> None:
    results = await asyncio.gather(*(sandbox.run("sleep 0.8", timeout_seconds=2) for _ in range(4)))
    assert not any(result.timed_out for result in results)


async def test_a_cancelled_command_is_killed_and_the_next_one_runs(sandbox: Sandbox) -> None:
    task = asyncio.create_task(sandbox.run("sleep 60; echo never", timeout_seconds=100))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await run_text(sandbox, "echo next") == "next\n"


async def test_sandboxes_do_not_share_their_tree(runtime: Runtime, image: str) -> None:
    async with await runtime.acquire(image, deadline_seconds=30) as first:
        await first.run("echo changed >a.txt; mkdir new", timeout_seconds=20)
        async with await runtime.acquire(image, deadline_seconds=30) as second:
            assert await run_text(second, "cat a.txt; ls") == "hello\na.txt\n"


async def test_closing_under_a_command_ends_it_as_infrastructure(sandbox: Sandbox) -> None:
    task = asyncio.create_task(sandbox.run("sleep 60", timeout_seconds=100))
    await asyncio.sleep(0.2)
    await sandbox.close()
    with pytest.raises(InfrastructureError):
        await task
