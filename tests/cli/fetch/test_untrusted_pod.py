"""Whatever a pod says there is, and sends: it is bounded, and stays in its directory."""

from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import pytest

from sweyard_cli.errors import UserError
from sweyard_cli.fetch.listing import Entry, read_listing
from sweyard_cli.fetch.receiving import receive

PLACES = ("metrics", "progress.json")


@pytest.mark.parametrize(
    "line",
    [
        "1 1 /etc/passwd",
        "1 1 metrics/../../outside",
        "1 1 ../metrics/a",
        "1 1 metrics//a",
        "1 1 metrics/./a",
        "1 1 weights/1/a",
        "1 1 metrics/\x1b[2J",
        "1 1 metrics/\udcff",
        "1 1 metrics/",
        "-1 1 metrics/a",
        f"{10**20} 1 metrics/a",
        "metrics/a",
    ],
)
def test_a_name_that_is_none_of_a_run_s_files_is_left_out(line: str) -> None:
    listing = read_listing([b"5 7 metrics/a\n", line.encode(errors="surrogateescape")], PLACES)
    assert (listing.entries, listing.num_refused) == ([Entry("metrics/a", 5, 7)], 1)


def test_a_list_without_end_is_not_read_to_it() -> None:
    with pytest.raises(UserError, match="longer than 256 MiB"):
        read_listing(repeat(b"5 7 metrics/a\n" * 100_000), PLACES)


def sent(*chunks: bytes) -> Iterator[bytes]:
    yield from chunks


HOSTILE: dict[str, tuple[Iterator[bytes], str]] = {
    "longer than listed": (sent(b"6\nabcdef"), "metrics/a is 6 bytes long, and not 5"),
    "beyond all disks": (sent(b"999999999999999999\n"), "bytes long, and not 5"),
    "less than nothing": (sent(b"-1\n"), "is -1 bytes long"),
    "no size": (repeat(b"\x00"), "the pod sends something else than files"),
    "no end of a line": (repeat(b"1"), "the pod sends something else than files"),
    "a word in the place of bytes": (sent(b"5\nabc", b"gone\n", b"3\n"), "metrics/a could not be read to its end"),
    "too few bytes": (sent(b"5\nabc"), "broke off"),
    "nothing": (sent(), "broke off"),
}


@pytest.mark.parametrize(("chunks", "sentence"), HOSTILE.values(), ids=HOSTILE)
def test_a_stream_that_is_no_such_file_makes_none(tmp_path: Path, chunks: Iterator[bytes], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        receive([Entry("metrics/a", 5, 7)], chunks, tmp_path, is_live=False, told=lambda _: None)
    assert not (tmp_path / "metrics" / "a").exists()


def test_files_of_a_live_run_may_have_grown_or_gone(tmp_path: Path) -> None:
    entries = [Entry("metrics/a", 5, 7), Entry("metrics/b", 5, 7), Entry("progress.json", 2, 9)]
    gone = receive(
        entries,
        sent(b"7\nabc", b"defgen", b"d\n", b"gone\n", b"2\n{", b"}end\n"),
        tmp_path,
        is_live=True,
        told=lambda _: None,
    )
    assert gone == [entries[1]]
    assert (tmp_path / "metrics" / "a").read_bytes() == b"abcdefg"
    assert (tmp_path / "progress.json").read_text() == "{}"
