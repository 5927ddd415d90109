"""A disk that takes nothing more: one sentence that names the place and the remedy."""

import errno
import subprocess
import sys
from collections.abc import Callable
from io import RawIOBase
from pathlib import Path
from typing import Any

import pytest

from sweyard_cli.disk import told as told_in_words
from sweyard_cli.disk import writes_to

Sweyard = Callable[..., Any]


def test_output_that_finds_no_room_is_told_in_a_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "sweyard_cli", "presets"]
        told = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (told.returncode, told.stderr) == (2, f"error: {told_in_words(full_disk())}\n")


def full_disk(place: str | None = None) -> OSError:
    return OSError(errno.ENOSPC, "No space left on device", place)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (full_disk(), "no space left for what is written: make some, and run the same command again"),
        (full_disk("/runs/a"), "no space left for /runs/a: make some, and run the same command again"),
        (
            OSError(errno.EROFS, "Read-only file system", "/runs"),
            "/runs: Read-only file system; change its permissions, or name another place (--output, SWEYARD_CACHE)",
        ),
        (IsADirectoryError(errno.EISDIR, "Is a directory", "/etc"), "/etc: Is a directory"),
    ],
    ids=["full", "full, and where", "read-only", "neither"],
)
def test_what_a_disk_refuses_is_told_with_the_remedy(error: OSError, expected: str) -> None:
    assert told_in_words(error) == expected


def _write(file: RawIOBase, place: Path) -> None:
    with writes_to(place):
        file.write(b"a")


@pytest.mark.parametrize("full", ["new.html", "new.html.partial", "new.png.partial"])
def test_a_report_for_which_there_is_no_room_is_told_and_spares_the_last(
    sweyard: Sweyard, make_run: Callable[..., Path], tmp_path: Path, full: str
) -> None:
    (tmp_path / "new.png").write_text("the last one")
    (tmp_path / full).symlink_to("/dev/full")
    result = sweyard("report", make_run(), "-o", tmp_path / "new.html")
    place = tmp_path / full.removesuffix(".partial")
    assert (result.exit_code, f"no space left for {place}: make some" in result.stderr) == (2, True)
    assert (tmp_path / "new.png").read_text() == "the last one"


def test_a_write_to_an_open_file_on_a_full_disk_is_told_by_the_directory(tmp_path: Path) -> None:
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(OSError, match="No space left") as raised:
        _write(full, tmp_path)
    assert raised.value.filename == str(tmp_path)
