"""Work as the changed files of the whole file system, for tasks whose answer may lie outside any repository.

In the agent's sandbox a mark is set before the agent comes; what changed since (by ctime, which no program can set) is
packed, with the names of what is gone. The text of the work is base64 of a gzipped tar behind one line of JSON.
"""

import base64
import gzip
import io
import json
import shlex
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from sweyard_sandbox.errors import SweyardError

MARK = "/var/tmp/.sweyard-work"
"""Folder of the mark and of the names of all files at its time; root's alone."""
SOLUTION_AS_WORK = "the task's own solution"
"""Stands for the work of a task's solution script, which only the grader runs; no agent's work reads like this."""
PACKED_CAP_BYTES = 8_000_000
UNPACKED_CAP_BYTES = 512_000_000
SPARED = ("/proc", "/sys", "/dev", "/run", "/logs", "/tests", "/solution", MARK)
"""Neither looked at nor carried: the kernel's, the grader's, ours."""
SPARED_NAMES = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
"""The container runtime's."""

_DAMAGE = (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, OSError)


class WorkFormatError(SweyardError, ValueError):
    """A text that is no work in files."""


@dataclass(frozen=True, slots=True)
class Files:
    """What an agent changed."""

    packed: bytes
    """Gzipped tar, paths relative to /."""
    removed: tuple[str, ...] = ()
    """Absolute paths."""
    dropped: tuple[str, ...] = ()
    """Absolute paths that were left out of `packed`."""


def mark_script(working_directory: str) -> str:
    """Shell text that sets the mark, and lists what is there."""
    return f"""set -e
for program in find sort comm sed tar gzip; do
  command -v $program >/dev/null || {{ echo "the image has no $program, by which work in files travels"; exit 1; }}
done
mkdir -p -m 700 {MARK}
touch {MARK}/mark
find {MARK} -cnewer {MARK}/mark >/dev/null
{_find(working_directory, "")} >{MARK}/names
touch {MARK}/mark
sleep 0.02"""


def pack_script(working_directory: str) -> str:
    """Prints names that are gone, one a line, an empty line, and the packed files; or words alone."""
    return f"""cd / || exit 1
[ -f {MARK}/mark ] || {{ echo "the mark of the start is gone"; exit 1; }}
{_find(working_directory, "")} >{MARK}/now || {{ cat {MARK}/now; exit 1; }}
{_find(working_directory, f"-cnewer {MARK}/mark")} >{MARK}/changed
LC_ALL=C comm -23 {MARK}/names {MARK}/now
echo
sed 's|^/||' {MARK}/changed >{MARK}/list
tar -czf - --no-recursion -T {MARK}/list 2>/dev/null"""


def _find(working_directory: str, condition: str) -> str:
    """All that is no folder, sorted; names with newlines are two names, neither of which exists."""
    prunes = " -o ".join(f"-path {shlex.quote(path)}" for path in SPARED)
    ours = " -o ".join(f"-path {shlex.quote(path)}" for path in (*SPARED_NAMES, "/tmp/sweyard*", "/tmp/.sweyard*"))
    roots = f"/ {shlex.quote(working_directory)}"
    return (
        f"find {roots} -xdev \\( {prunes} \\) -prune -o ! -type d ! \\( {ours} \\) {condition} -print 2>/dev/null"
        " | LC_ALL=C sort -u"
    )


def parse_packed(output: bytes) -> Files:
    """What pack_script printed. Raises WorkFormatError."""
    names, separator, packed = output.partition(b"\n\n") if not output.startswith(b"\n") else (b"", b"\n", output[1:])
    if not separator:
        raise WorkFormatError("the sandbox did not pack the work")
    removed = tuple(filter(None, names.decode("utf-8", "surrogateescape").split("\n")))
    return Files(packed or pack({}), removed)


def to_text(files: Files) -> str:
    """Work as it is kept and graded."""
    return json.dumps({"removed": files.removed}) + "\n" + base64.b64encode(files.packed).decode()


def from_text(text: str) -> Files:
    """Inverse of to_text; an empty text is no work. Raises WorkFormatError."""
    if not text.strip():
        return Files(pack({}))
    head, _, body = text.partition("\n")
    try:
        removed = json.loads(head)["removed"]
        packed = base64.b64decode(body, validate=True)
    except (ValueError, TypeError, KeyError) as error:
        raise WorkFormatError(f"no work in files: {error}") from None
    if not isinstance(removed, list) or not all(isinstance(path, str) and path.startswith("/") for path in removed):
        raise WorkFormatError("the names of removed files are no absolute paths")
    return Files(packed, tuple(removed))


def pack(contents: dict[str, bytes]) -> bytes:
    """Files by absolute path, packed; scripts among them can be executed."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, content in contents.items():
            member = tarfile.TarInfo(path.lstrip("/"))
            member.size, member.mode = len(content), 0o755 if content.startswith(b"#!") else 0o644
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def paths_of(files: Files) -> list[str]:
    """Absolute paths of all that is packed. Raises WorkFormatError."""
    try:
        with tarfile.open(fileobj=io.BytesIO(files.packed), mode="r|gz") as source:
            return [f"/{member.name}" for member in source]
    except _DAMAGE as error:
        raise WorkFormatError(f"the work is no archive: {error}") from None


def without(files: Files, is_dropped: Callable[[str], bool]) -> Files:
    """Without members for which `is_dropped` of the absolute path holds, that lie outside of /, are no file or symbolic
    link, or lie below such a link of the work (and so somewhere else).

    Raises WorkFormatError for what is no archive, or unpacks to too much.
    """
    kept, size = io.BytesIO(), 0
    dropped: list[str] = []
    links: set[str] = set()
    try:
        with (
            tarfile.open(fileobj=io.BytesIO(files.packed), mode="r|gz") as source,
            tarfile.open(fileobj=kept, mode="w:gz") as target,
        ):
            for member in source:
                path = f"/{member.name}"
                size += member.size
                if size > UNPACKED_CAP_BYTES:
                    raise WorkFormatError(f"the work has more than {UNPACKED_CAP_BYTES} bytes")
                if not _is_carried(member, links) or is_dropped(path):
                    dropped.append(path)
                    continue
                if member.issym():
                    links.add(member.name)
                target.addfile(member, source.extractfile(member) if member.isreg() else None)
    except _DAMAGE as error:
        raise WorkFormatError(f"the work is no archive: {error}") from None
    removed = tuple(path for path in files.removed if not is_dropped(path))
    return Files(kept.getvalue(), removed, tuple(dropped))


def _is_carried(member: tarfile.TarInfo, links: set[str]) -> bool:
    place = PurePosixPath(member.name)
    inside = not place.is_absolute() and ".." not in place.parts
    return inside and (member.isreg() or member.issym()) and links.isdisjoint(map(str, place.parents))
