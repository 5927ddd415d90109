"""Small wrongs of a module, one at a time, made in its syntax tree. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

COMPARISONS: dict[type[Any], type[Any]] = {
    cst.LessThan: cst.LessThanEqual,
    cst.LessThanEqual: cst.LessThan,
    cst.GreaterThan: cst.GreaterThanEqual,
    cst.GreaterThanEqual: cst.GreaterThan,
    cst.Equal: cst.NotEqual,
    cst.NotEqual: cst.Equal,
    cst.Is: cst.IsNot,
    cst.IsNot: cst.Is,
    cst.In: cst.NotIn,
    cst.NotIn: cst.In,
}
ARITHMETIC: dict[type[Any], type[Any]] = {
    cst.Add: cst.Subtract,
    cst.Subtract: cst.Add,
    cst.Multiply: cst.Divide,
    cst.Divide: cst.Multiply,
    cst.FloorDivide: cst.Multiply,
    cst.BitAnd: cst.BitOr,
    cst.BitOr: cst.BitAnd,
    cst.And: cst.Or,
    cst.Or: cst.And,
}
NAMES = {
    "min": "max",
    "max": "min",
    "maximum": "minimum",
    "minimum": "maximum",
    "any": "all",
    "all": "any",
    "True": "False",
    "False": "True",
    "zeros_like": "ones_like",
    "ones_like": "zeros_like",
}
MODULES = ("torch", "np", "cst")
UNTOUCHED = (cst.Annotation, cst.Import, cst.ImportFrom, cst.Decorator, cst.FormattedString, cst.Raise, cst.Assert)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One wrong, known by the text of its line, which outlives changes elsewhere in the file."""

    line: int
    before: str
    after: str
    source: str
    """The whole module."""


def make_mutants(source: str) -> list[Mutant]:
    """All of them, in the order of the text."""
    wrapper = MetadataWrapper(cst.parse_module(source))
    positions = wrapper.resolve(PositionProvider)
    mutants = []
    for node in _nodes(wrapper.module):
        for replacement in _wrongs(node):
            changed = wrapper.module.deep_replace(node, replacement)
            assert isinstance(changed, cst.Module)
            mutants.append(_mutant(source, changed.code, positions[node].start.line))
    return sorted(mutants, key=lambda mutant: mutant.line)


def _nodes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    if isinstance(node, UNTOUCHED):
        return
    yield node
    for child in node.children:
        yield from _nodes(child)


def _wrongs(node: cst.CSTNode) -> Sequence[cst.CSTNode]:
    match node:
        case cst.ComparisonTarget(operator=operator):
            return [node.with_changes(operator=COMPARISONS[type(operator)]())]
        case cst.BinaryOperation(operator=operator) | cst.BooleanOperation(operator=operator):
            other = ARITHMETIC.get(type(operator))
            return [node.with_changes(operator=other())] if other else []
        case cst.UnaryOperation(operator=cst.Minus() | cst.Not(), expression=inner):
            return [inner.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])]
        case cst.Integer(value=value):
            return [cst.Integer(str(int(value) + 1))]
        case cst.Float(value=value):
            return [cst.Float(repr(float(value) * 2 if float(value) else 1.0))]
        case cst.Name(value=value) if value in NAMES:
            return [node.with_changes(value=NAMES[value])]
        case cst.Call(func=cst.Attribute(value=receiver, attr=attribute)):
            is_module = isinstance(receiver, cst.Name) and (receiver.value in MODULES or receiver.value[0].isupper())
            return [] if is_module or attribute.value in ("append", "items") else [receiver]
        case cst.IfExp(body=body, orelse=orelse):
            return [node.with_changes(body=orelse, orelse=body)]
        case cst.If(test=test):
            return [node.with_changes(test=cst.UnaryOperation(cst.Not(), _parenthesised(test)))]
        case _:
            return []


def _parenthesised(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.with_changes(lpar=[cst.LeftParen(), *node.lpar], rpar=[*node.rpar, cst.RightParen()])


def _mutant(source: str, changed: str, line: int) -> Mutant:
    old, new = source.splitlines(), changed.splitlines()
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            return Mutant(i1 + 1, _joined(old[i1:i2]), _joined(new[j1:j2]), changed)
    raise AssertionError(f"line {line}: the mutant equals its original")


def _joined(lines: Sequence[str]) -> str:
    return " ".join(line.strip() for line in lines)
