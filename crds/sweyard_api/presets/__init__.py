"""Named recipes: one YAML file each, holding spec fields and, in its opening comment, a summary and its source."""

from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from sweyard_api.yaml_text import load_document

_SUFFIX = ".yaml"


@dataclass(frozen=True, slots=True)
class Preset:
    """A recipe."""

    name: str
    summary: str
    """First line of the file's comment."""
    source: str
    """The rest of the comment: where the values come from and what differs."""
    spec: dict[str, Any]
    """Partial TrainingRun spec, in YAML's spelling."""


def list_presets() -> list[str]:
    """Names of all presets, sorted."""
    return sorted(
        entry.name.removesuffix(_SUFFIX) for entry in files(__name__).iterdir() if entry.name.endswith(_SUFFIX)
    )


def load_preset(name: str) -> Preset:
    """Read one preset. Raises KeyError if there is none of that name."""
    if name not in list_presets():
        raise KeyError(name)
    text = files(__name__).joinpath(name + _SUFFIX).read_text(encoding="utf-8")
    summary, *source = _opening_comment(text)
    return Preset(name=name, summary=summary, source=" ".join(source), spec=load_document(text))


def _opening_comment(text: str) -> list[str]:
    lines: list[str] = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return lines
