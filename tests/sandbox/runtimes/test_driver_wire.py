"""The wire format without any stream."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweyard_sandbox.driver import wire

SECRET = "5ec7e7"


def parse(stream: bytes, cuts: list[int], limit: int = 1 << 20) -> list[wire.Answer]:
    parser = wire.AnswerParser(SECRET, max_output_bytes=limit)
    points = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    portions = [stream[begin:end] for begin, end in itertools.pairwise(points)]
    return [answer for portion in portions for answer in parser.feed(portion)]


def mark(words: str) -> bytes:
    return f"\n-{SECRET}-{words}\n".encode()


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
        ("hello 1 setsid /tmp/.sweyard", wire.Hello(True, True, "/tmp/.sweyard")),
        ("hello 0 none /dev/shm/.sweyard", wire.Hello(False, False, "/dev/shm/.sweyard")),
        ("lacks tee grep", wire.Lacks(("tee", "grep"))),
        ("begin c1", wire.Begun("c1")),
        ("resume c1", wire.Begun("c1")),
        ("unknown c1", wire.Unknown("c1")),
        ("refused c1", wire.Refused("c1")),
        ("end c1 137 2 1", wire.Ended("c1", 137, 2, cut=True, output=b"noise")),
    ],
)
def test_every_answer_is_read(words: str, answer: wire.Answer) -> None:
    assert parse(b"noise" + mark(words), []) == [answer]


def test_what_comes_before_begin_is_not_the_commands() -> None:
    answers = parse(b"noise of another" + mark("begin c2") + b"own" + mark("end c2 0 0 0"), [])
    assert answers == [wire.Begun("c2"), wire.Ended("c2", 0, 0, cut=False, output=b"own")]


def test_a_second_greeting_does_not_take_the_output_away() -> None:
    hello = wire.Hello(True, True, "/s")
    stream = (
        b"motd" + mark("hello 1 setsid /s") + b"before" + mark("hello 1 setsid /s") + b"after" + mark("end c1 0 0 0")
    )
    assert parse(stream, [30, 50]) == [hello, hello, wire.Ended("c1", 0, 0, cut=False, output=b"beforeafter")]


@pytest.mark.parametrize("words", ["", "end c1", "end c1 x 0 0", "end c1 0 0 7", "nonsense", "x" * 1_000])
def test_what_is_no_answer_is_an_error(words: str) -> None:
    with pytest.raises(wire.WireError):
        parse(mark(words), [])


def test_output_without_end_is_an_error_and_does_not_fill_the_memory() -> None:
    with pytest.raises(wire.WireError, match="more than 1000 bytes"):
        parse(b"x" * 2_000, [500, 1_500], limit=1_000)


@pytest.mark.parametrize("text", ["one", "two\nlines", "ends\n", "", "\n\n", "tücher", "back\\slash"])
def test_a_command_is_counted_in_lines(text: str) -> None:
    request = wire.encode_run("c1", cap_bytes=1_000, prelude=":", command=text)
    header, *lines = request.split(b"\n")
    assert header.split()[3:] == [b"1", str(text.count("\n") + 1).encode()]
    assert b"\n".join(lines) == b":\n" + text.encode() + b"\n"


def test_a_nul_byte_in_a_command_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        wire.encode_run("c1", cap_bytes=1, prelude=":", command="a\0b")


def test_payloads_are_padded_only_where_head_reads_ahead() -> None:
    assert wire.encode_put("n", b"data", exact_head=True) == b"put n 4\ndata"
    assert wire.encode_put("n", b"data", exact_head=False).startswith(b"put n 4\ndata\n\n\n")
