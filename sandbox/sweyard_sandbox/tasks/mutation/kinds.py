"""The catalogue of bugs: for one syntax node, the replacements that break it.

Every rule keeps the change on one line.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import libcst as cst

KINDS = (
    "equality",
    "boundary",
    "comparison_direction",
    "boolean_operator",
    "not_removed",
    "not_added",
    "arithmetic",
    "constant",
    "return_none",
    "return_negated",
    "identity",
    "membership",
    "extreme",
    "boolean_literal",
    "loop_exit",
    "argument_order",
    "statement_dropped",
)
"""Every kind of bug."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the text of `node` by `new`."""

    node: cst.CSTNode
    kind: str
    new: str


Code = Callable[[cst.CSTNode], str]
"""Source text of a node."""

TOKENS: dict[type[cst.CSTNode], tuple[tuple[str, str], ...]] = {
    cst.Equal: (("equality", "!="),),
    cst.NotEqual: (("equality", "=="),),
    cst.LessThan: (("boundary", "<="), ("comparison_direction", ">")),
    cst.LessThanEqual: (("boundary", "<"), ("comparison_direction", ">=")),
    cst.GreaterThan: (("boundary", ">="), ("comparison_direction", "<")),
    cst.GreaterThanEqual: (("boundary", ">"), ("comparison_direction", "<=")),
    cst.Is: (("identity", "is not"),),
    cst.IsNot: (("identity", "is"),),
    cst.In: (("membership", "not in"),),
    cst.NotIn: (("membership", "in"),),
    cst.And: (("boolean_operator", "or"),),
    cst.Or: (("boolean_operator", "and"),),
    cst.Add: (("arithmetic", "-"),),
    cst.Subtract: (("arithmetic", "+"),),
    cst.Multiply: (("arithmetic", "//"),),
    cst.FloorDivide: (("arithmetic", "*"),),
    cst.AddAssign: (("arithmetic", "-="),),
    cst.SubtractAssign: (("arithmetic", "+="),),
    cst.Break: (("loop_exit", "continue"),),
    cst.Continue: (("loop_exit", "break"),),
}
NAMES = {
    "min": ("extreme", "max"),
    "max": ("extreme", "min"),
    "any": ("extreme", "all"),
    "all": ("extreme", "any"),
    "True": ("boolean_literal", "False"),
    "False": ("boolean_literal", "True"),
}
LARGEST_CONSTANT = 1_000


def edits_of(node: cst.CSTNode, code: Code) -> Iterator[Edit]:
    """All one-line ways to break `node`."""
    for kind, new in TOKENS.get(type(node), ()):
        yield Edit(node, kind, new)
    for rule in (_names, _constants, _negations, _conditions, _returns, _arguments, _statements):
        yield from rule(node, code)


def _names(node: cst.CSTNode, code: Code) -> Iterator[Edit]:
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in NAMES:
        yield Edit(node.func, *NAMES[node.func.value])
    if isinstance(node, cst.Name) and node.value in ("True", "False"):
        yield Edit(node, *NAMES[node.value])


def _constants(node: cst.CSTNode, code: Code) -> Iterator[Edit]:
    if isinstance(node, cst.Integer) and node.value.isdigit() and int(node.value) <= LARGEST_CONSTANT:
        yield Edit(node, "constant", str(int(node.value) + 1))
        if int(node.value) > 0:
            yield Edit(node, "constant", str(int(node.value) - 1))


def _negations(node: cst.CSTNode, code: Code) -> Iterator[Edit]:
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        yield Edit(node, "not_removed", code(node.expression))


def _conditions(node: cst.CSTNode, code: Code) -> Iterator[Edit]:
    simple = (cst.Name, cst.Attribute, cst.Call, cst.Subscript)
    if isinstance(node, cst.If | cst.While | cst.IfExp) and isinstance(node.test, simple):
        yield Edit(node.test, "not_added", f"not {code(node.test)}")


def _returns(node: cst.CSTNode, code: Code) -> Iterator[Edit]:
    if not isinstance(node, cst.Return) or node.value is None or code(node.value) == "None":
        return
    yield Edit(node.value, "return_none", "None")
    if isinstance(node.value, cst.Comparison | cst.BooleanOperation):
        yield Edit(node.value, "return_negated", f"not ({code(node.value)})")


def _arguments(node: cst.CSTNode, code: Code) -> Iterator[Edit]:
    if not isinstance(node, cst.Call) or len(node.args) < 2:
        return
    first, second = node.args[:2]
    if any(argument.keyword or argument.star for argument in (first, second)):
        return
    before, after = code(first.value), code(second.value)
    whole = code(node)
    start = whole.find(before, len(code(node.func)))
    end = whole.find(after, start + len(before))
    if before != after and start >= 0 and end >= 0:
        between = whole[start + len(before) : end]
        yield Edit(node, "argument_order", f"{whole[:start]}{after}{between}{before}{whole[end + len(after) :]}")


def _statements(node: cst.CSTNode, code: Code) -> Iterator[Edit]:
    dropped = (cst.Raise, cst.AugAssign, cst.Continue, cst.Break)
    is_call = isinstance(node, cst.Expr) and isinstance(node.value, cst.Call)
    if isinstance(node, dropped) or is_call:
        yield Edit(node, "statement_dropped", "pass")
