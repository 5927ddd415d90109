"""What is wrong with a document: typed problems, and the error that carries them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sweyard_api.base import Model


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to mend."""

    field: str
    """Dotted path in YAML's spelling, for example rollout.groupSize or tasks.eval[0].dataset."""
    message: str
    """What is wrong and what to do."""
    value: Any = None
    """The offending value, where there is one."""

    def __str__(self) -> str:
        shown = repr(self.value) if isinstance(self.value, str) else str(self.value)
        where = self.field or "spec"
        if self.value is None or isinstance(self.value, dict | list | Model) or len(shown) > 80:
            return printable(f"{where}: {self.message}")
        return printable(f"{where} is {shown}: {self.message}")


class InvalidSpecError(ValueError):
    """A spec that cannot be run, with every problem found in it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)


def broken_rules(model: Model, path: str = "") -> Iterator[Problem]:
    """The rules between fields that `model`, or a model inside it, does not keep."""
    for rule in type(model).rules:
        if not rule.holds(model):
            yield Problem(join_path(path, rule.field), rule.message, _value_at(model, rule.field))
    for name, field in type(model).model_fields.items():
        yield from _broken_in(getattr(model, name), join_path(path, field.alias or name))


def _broken_in(value: Any, path: str) -> Iterator[Problem]:
    if isinstance(value, Model):
        yield from broken_rules(value, path)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _broken_in(item, f"{path}[{index}]")


def _value_at(model: Model, path: str) -> Any:
    value: Any = model
    for key in path.split(".") if path else ():
        names = {field.alias or name: name for name, field in type(value).model_fields.items()}
        value = getattr(value, names[key])
    return value


def printable(text: str) -> str:
    """`text` in one line: line feeds and what else would not show, as names in a file may hold them, are spelt out."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def join_path(*parts: str) -> str:
    """Join dotted paths; empty parts vanish."""
    return ".".join(part for part in parts if part)
