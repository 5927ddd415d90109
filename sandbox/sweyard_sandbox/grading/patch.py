"""The sections of a git patch, as values: which file each is about, and what it does to it."""

import re
from dataclasses import dataclass

SYMLINK = "120000"
ESCAPES = {
    b"t": b"\t",
    b"n": b"\n",
    b"r": b"\r",
    b'"': b'"',
    b"\\": b"\\",
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"v": b"\v",
}


@dataclass(frozen=True, slots=True)
class Section:
    """What a patch does to one file."""

    path: str
    """The file, after the change."""
    text: str
    """The section itself."""

    @property
    def source(self) -> str:
        """Where a rename or copy takes it from; empty for other changes."""
        moved = re.search(r"^(?:rename|copy) from (.*)$", _header(self.text), re.MULTILINE)
        return _unprefixed(moved[1]) if moved else ""

    @property
    def is_symlink(self) -> bool:
        """It makes or changes a symbolic link."""
        return bool(re.search(rf"^(?:new file mode|new mode|index \S+) ?{SYMLINK}$", self.text, re.MULTILINE))

    @property
    def is_binary(self) -> bool:
        """git says only that the files differ."""
        return self.text.endswith(" differ\n") and "\n@@ " not in self.text

    @property
    def is_deletion(self) -> bool:
        """It removes the file."""
        return "\n+++ /dev/null" in self.text or "\ndeleted file mode" in self.text


def split_patch(patch: str) -> list[Section]:
    """Sections in order. Text before the first header is dropped."""
    starts = _header_lines(patch)
    ends = [*starts[1:], len(patch)][: len(starts)]
    return [Section(_path(text), text) for text in (patch[a:b] for a, b in zip(starts, ends, strict=True))]


def join_patch(sections: list[Section]) -> str:
    """The opposite of split_patch."""
    return "".join(section.text for section in sections)


def canonical_patch(patch: str) -> str:
    """The same for patches that do the same: without the names of blobs, and what git says beside line numbers.

    Lines of content begin with a blank, a plus or a minus, so none is taken for these.
    """
    return join_patch([Section(section.path, _canonical(section.text)) for section in split_patch(patch)])


def _canonical(section: str) -> str:
    if re.search(r"^--- ", section, re.MULTILINE) is None:
        return section  # its first line alone names the file
    section = re.sub(r"^(?:diff --git .*|index \S+(?: 100[0-7]{3})?)\n", "", section, flags=re.MULTILINE)
    return re.sub(r"^(@@ -[\d,]+ \+[\d,]+ @@).*$", r"\1", section, flags=re.MULTILINE)


def _header_lines(patch: str) -> list[int]:
    """Offsets where sections begin, hunks skipped by their counted lines so that no content is taken for a header."""
    starts, offset, left_old, left_new, in_header = [], 0, 0, 0, False
    for line in patch.split("\n"):
        if left_old > 0 or left_new > 0:
            left_old -= line[:1] in (" ", "-", "")
            left_new -= line[:1] in (" ", "+", "")
        elif hunk := re.match(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@", line):
            left_old, left_new = (int(count) if count else 1 for count in hunk.groups())
            in_header = False
        elif line.startswith("diff --git ") or (line.startswith("--- ") and not in_header):
            starts.append(offset)
            in_header = True
        offset += len(line) + 1
    return starts


def _header(section: str) -> str:
    return section.split("\n@@ ", 1)[0]


def _path(section: str) -> str:
    if moved := re.search(r"^(?:rename|copy) to (.*)$", _header(section), re.MULTILINE):
        return _unprefixed(moved[1])
    for prefix in ("+++ ", "--- "):
        for line in section.split("\n"):
            if line.startswith(prefix) and (name := _name(line[len(prefix) :])) is not None:
                return name
            if line.startswith("@@ "):
                break
    first = section.split("\n", 1)[0].removeprefix("diff --git ")
    if first.startswith('"'):
        return _name(first[first.rfind(' "') + 1 :]) or ""
    return first[len(first) // 2 + 1 :].removeprefix("b/")


def _name(text: str) -> str | None:
    """Of a file's line; None for /dev/null. A tab ends a name that is not quoted."""
    text = text.rstrip("\r")
    if text.startswith("/dev/null"):
        return None
    text = _unprefixed(text.split("\t", 1)[0])
    return text.split("/", 1)[1] if text[:2] in ("a/", "b/") else text


def _unprefixed(text: str) -> str:
    return _unquoted(text.rstrip("\t\r")[1:-1]) if text.startswith('"') else text.rstrip("\r")


def _unquoted(text: str) -> str:
    def replace(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes([int(code, 8) & 0xFF]) if code[:1].isdigit() else ESCAPES[code]

    data = text.encode("utf-8", "surrogateescape")
    return re.sub(rb'\\([0-7]{3}|[tnr"\\abfv])', replace, data).decode("utf-8", "surrogateescape")
