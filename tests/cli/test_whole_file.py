"""What the command line writes for its user appears whole or not at all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweyard_cli.whole_file import whole_file

KILLED = """
import os, signal, sys
from pathlib import Path
from sweyard_cli.whole_file import whole_file
with whole_file(Path(sys.argv[1])) as file:
    file.write("half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_is_there_gives_way_only_to_the_whole(tmp_path: Path) -> None:
    place = tmp_path / "chats.jsonl"
    place.write_text("before")
    with pytest.raises(TypeError), whole_file(place) as file:
        file.writelines(["half", None])  # type: ignore[list-item]
    assert place.read_text() == "before"
    with whole_file(place) as file:
        file.write("after")
    assert place.read_text() == "after"
    assert list(tmp_path.iterdir()) == [place]


def test_a_writer_that_is_killed_leaves_nothing_under_the_name(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, tmp_path / "chats.jsonl"], check=False)
    assert [path.name for path in tmp_path.iterdir()] == ["chats.jsonl.partial"]


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(tmp_path / "chats.jsonl")
    with whole_file(tmp_path / "latest") as file:
        file.write("new")
    assert (tmp_path / "latest").is_symlink()
    assert (tmp_path / "chats.jsonl").read_text() == "new"


def test_a_pipe_is_written_as_it_is(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with whole_file(Path(f"/dev/fd/{writing}")) as file:
        file.write("a line")
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() == "a line"


def test_a_place_that_cannot_be_is_told_by_the_name_that_was_given(tmp_path: Path) -> None:
    place = tmp_path / "none" / "chats.jsonl"
    with pytest.raises(FileNotFoundError) as raised, whole_file(place):
        pass
    assert raised.value.filename == str(place)
