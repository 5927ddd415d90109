"""The wire format without any stream."""

import itertools
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sweyard_sandbox.driver import wire

SECRET = "5ec7e7"


def parse(stream: bytes, cuts: list[int], limit: int = 1 << 20) -> list[wire.Answer]:
    parser = wire.AnswerParser(SECRET, max_output_bytes=limit)
    points = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    portions = [stream[begin:end] for begin, end in itertools.pairwise(points)]
    return [answer for portion in portions for answer in parser.feed(portion)]


def mark(words: str) -> bytes:
    return f"-{SECRET}-{words}\n".encode()


@given(
    outputs=st.lists(
        st.binary(max_size=200) | st.sampled_from([b"\n", b"\n-", b"\n-5ec7e", b"-end a 0 0 0\n"]), max_size=8
    ),
    cuts=st.lists(st.integers(min_value=0), max_size=20),
)
def test_outputs_come_back_however_the_stream_is_cut(outputs: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(output + mark(f"end c{number} {number} 0 0") for number, output in enumerate(outputs))
    assert parse(stream, cuts) == [
        wire.Ended(f"c{number}", number, 0, cut=False, output=output) for number, output in enumerate(outputs)
    ]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("hello 1 /tmp/.sweyard a.1.1 ", wire.Hello(True, "/tmp/.sweyard", "a.1.1", "")),
        ("hello 1 /s a.1.1 4711", wire.Hello(True, "/s", "a.1.1", "4711")),
        ("hello 0 /dev/shm/.sweyard none 8", wire.Hello(False, "/dev/shm/.sweyard", wire.NO_LEDGER, "8")),
        ("lacks tee grep", wire.Lacks(("tee", "grep"))),
        ("begin c1", wire.Begun("c1")),
        ("resume c1", wire.Begun("c1")),
        ("unknown c1", wire.Unknown("c1")),
        ("refused c1", wire.Refused("c1")),
        ("ruined c1", wire.Ruined("c1")),
        ("dropped c1", wire.Dropped("c1")),
        ("lost c1", wire.Lost("c1")),
        ("end c1 137 2 1", wire.Ended("c1", 137, 2, cut=True, output=b"noise")),
    ],
)
def test_every_answer_is_read(words: str, answer: wire.Answer) -> None:
    assert parse(b"noise" + mark(words), []) == [answer]


def test_what_comes_before_begin_is_not_the_commands() -> None:
    answers = parse(b"noise of another" + mark("begin c2") + b"own" + mark("end c2 0 0 0"), [])
    assert answers == [wire.Begun("c2"), wire.Ended("c2", 0, 0, cut=False, output=b"own")]


def test_a_second_greeting_does_not_take_the_output_away() -> None:
    hello = wire.Hello(True, "/s", "a.1.1", "1")
    stream = (
        b"motd" + mark("hello 1 /s a.1.1 1") + b"before" + mark("hello 1 /s a.1.1 1") + b"after" + mark("end c1 0 0 0")
    )
    assert parse(stream, [30, 50]) == [hello, hello, wire.Ended("c1", 0, 0, cut=False, output=b"beforeafter")]


@pytest.mark.parametrize("words", ["", "end c1", "end c1 x 0 0", "end c1 0 0 7", "nonsense", "x" * 1_000])
def test_what_is_no_answer_is_an_error(words: str) -> None:
    with pytest.raises(wire.WireError):
        parse(mark(words), [])


@given(
    size=st.integers(min_value=0, max_value=3_000),
    cap=st.integers(min_value=0, max_value=2_000),
    cuts=st.lists(st.integers(min_value=0), max_size=20),
)
def test_output_beyond_the_cap_is_dropped_and_not_held(size: int, cap: int, cuts: list[int]) -> None:
    output = bytes(number % 251 for number in range(size))
    stream = output + mark("end c1 0 0 0") + b"next" + mark("end c2 0 0 0")
    first, second = parse(stream, cuts, limit=cap)
    assert first == wire.Ended("c1", 0, 0, cut=size > cap, output=output[:cap])
    assert second == wire.Ended("c2", 0, 0, cut=cap < 4, output=b"next"[:cap])


def test_a_flood_does_not_fill_the_memory() -> None:
    parser = wire.AnswerParser(SECRET, max_output_bytes=1_000)
    for _ in range(100):
        assert list(parser.feed(b"x" * 100_000)) == []
    held = [getattr(parser, name) for name in ("_window", "_output")]
    assert sum(map(sys.getsizeof, held)) < 2_500
    (answer,) = parser.feed(mark("end c1 0 0 0"))
    assert answer == wire.Ended("c1", 0, 0, cut=True, output=b"x" * 1_000)


@given(
    prefix=st.binary(max_size=100),
    cut_at=st.integers(min_value=0),
    outputs=st.lists(st.binary(max_size=50), min_size=1, max_size=4),
)
def test_a_stream_cut_anywhere_gives_only_whole_answers(prefix: bytes, cut_at: int, outputs: list[bytes]) -> None:
    stream = (
        prefix
        + mark("begin c0")
        + b"".join(output + mark(f"end c{number} 0 0 0") for number, output in enumerate(outputs))
    )
    whole = parse(stream, [])
    answers = parse(stream[: cut_at % (len(stream) + 1)], [])
    assert answers == whole[: len(answers)]


@pytest.mark.parametrize("shell", [shell for shell in ("dash", "busybox", "bash") if shutil.which(shell)])
@pytest.mark.parametrize("size", [0, 10_000])
@given(command=st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=40), data=st.data())
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_shell_reads_what_a_request_says(
    shell: str, size: int, tmp_path: Path, command: str, data: st.DataObject
) -> None:
    prelude = data.draw(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20))
    raw = wire.encode_run("c1", "a.1.1", cap_bytes=1, prelude=prelude, command=command + "x" * size)
    header, rest = raw.split(b"\n", 1)
    if size:  # it travels as a file
        (tmp_path / "c1.text.7").write_bytes(rest[: int(header.split()[2])])
        header, rest = rest[int(header.split()[2]) :].split(b"\n", 1)
    assert header.split()[:3] == [b"run", b"c1", b"a.1.1"]
    assert rest.endswith(b"\n")
    assert int(header.split()[4]) == rest.count(b"\n")
    (tmp_path / "c1.run").write_bytes(rest)
    (tmp_path / "sh").unlink(missing_ok=True)
    (tmp_path / "sh").symlink_to(shutil.which(shell) or shell)
    script = 'spool=$1 driver=7; . "$1/c1.run"; printf "%s\\0%s" "$prelude" "$command"'
    output = subprocess.run([tmp_path / "sh", "-c", script, "sh", tmp_path], capture_output=True, check=True).stdout
    assert output.decode().split("\0") == [prelude, command + "x" * size]


@pytest.mark.parametrize(
    ("command", "plain"),
    [
        ("/bin/echo hi", True),
        ("git diff --stat HEAD~1", False),
        ("git -C /testbed log --format=%H -n1", True),
        ("./run.sh a_b:c@d,e+f", True),
        ("cd /testbed", False),
        ("exit 3", False),
        ("A=1 env", False),
        ("if", False),
        ("-x", False),
        ("ls *.py", False),
        ("echo $HOME", False),
        ("ls  -l", False),
        ("ls ", False),
        ("ls -l\n", False),
        ("", False),
    ],
)
def test_only_words_that_no_shell_would_change_are_plain(command: str, plain: bool) -> None:
    assert wire.is_plain(command) is plain
    assert (b"words=1" in wire.encode_run("c1", "a.1.1", cap_bytes=1, prelude=":", command=command)) is plain


def test_a_nul_byte_in_a_command_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        wire.encode_run("c1", "a.1.1", cap_bytes=1, prelude=":", command="a\0b")


def test_payloads_are_padded_only_where_head_reads_ahead() -> None:
    assert wire.encode_put("n", b"data", exact_head=True) == b"put n 4\ndata"
    assert wire.encode_put("n", b"data", exact_head=False).startswith(b"put n 4\ndata\n\n\n")
