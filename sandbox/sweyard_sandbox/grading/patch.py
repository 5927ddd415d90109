"""The sections of a git patch, as values: which file each is about, and what it does to it."""

import re
from dataclasses import dataclass

SYMLINK = "120000"
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", '"': '"', "\\": "\\", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


@dataclass(frozen=True, slots=True)
class Section:
    """What a patch does to one file."""

    path: str
    """The file, after the change."""
    text: str
    """The section itself."""

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


def _path(section: str) -> str:
    for prefix in ("+++ ", "--- "):
        for line in section.split("\n"):
            if line.startswith(prefix) and (name := _name(line[len(prefix) :])) is not None:
                return name
            if line.startswith("@@ "):
                break
    first = section.split("\n", 1)[0].removeprefix("diff --git ")
    if first.startswith('"'):
        return _name(first[first.rindex(' "') + 1 :]) or ""
    return first[len(first) // 2 + 1 :].removeprefix("b/")


def _name(text: str) -> str | None:
    text = text.rstrip("\t\r")
    if text == "/dev/null":
        return None
    if text.startswith('"'):
        text = _unquoted(text[1:-1])
    return text.split("/", 1)[1] if text[:2] in ("a/", "b/") else text


def _unquoted(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code, 8)) if code[0].isdigit() else ESCAPES[code]

    return re.sub(r'\\([0-7]{3}|[tnr"\\abfv])', replace, text).encode("latin-1").decode("utf-8", "surrogateescape")
