"""All mutations of one module, each as a replacement of some columns of one line inside one function."""

from dataclasses import dataclass

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from sweyard_sandbox.tasks.mutation.kinds import edits_of
from sweyard_sandbox.tasks.undisturbed import undisturbed


@dataclass(frozen=True, slots=True)
class Mutation:
    """One bug that could be put into one line."""

    path: str
    """File, relative to the repository."""
    function: str
    """Dotted name of the function or method that holds the line."""
    function_line: int
    """First line of the function, decorators included, from 1."""
    line: int
    """Line of the change, from 1."""
    start: int
    """First column that is replaced, from 0."""
    end: int
    """Column after the last that is replaced."""
    kind: str
    old: str
    new: str

    @property
    def place(self) -> str:
        """The function that it is in."""
        return f"{self.path}:{self.function}"

    @property
    def key(self) -> str:
        """Unique within the repository."""
        return f"{self.path}:{self.line}:{self.start}-{self.end}:{self.new}"

    def apply(self, source: str) -> str:
        """`source` with the bug."""
        lines = source.split("\n")
        text = lines[self.line - 1]
        lines[self.line - 1] = text[: self.start] + self.new + text[self.end :]
        return "\n".join(lines)


def find_mutations(path: str, source: str) -> list[Mutation]:
    """Every mutation of a module inside its functions, in order of place. A module that does not parse has none.

    Annotations, decorators and docstrings are left alone, and so is whatever spans lines.
    """
    try:
        wrapper = MetadataWrapper(cst.parse_module(source))
    except cst.ParserSyntaxError:
        return []
    visitor = _Visitor(path, source)
    with undisturbed():  # libcst, ended half-way, fails in its turn, at length
        wrapper.visit(visitor)
    found = {mutation.key: mutation for mutation in visitor.found}
    return sorted(found.values(), key=lambda mutation: (mutation.line, mutation.start, mutation.end, mutation.new))


class _Visitor(cst.CSTVisitor):  # type: ignore[misc]
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, path: str, source: str) -> None:
        super().__init__()
        self.path = path
        self.lines = source.split("\n")
        self.names: list[str] = []
        self.functions: list[int] = []
        self.found: list[Mutation] = []

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:
        self.names.append(node.name.value)
        return True

    def leave_ClassDef(self, original_node: cst.ClassDef) -> None:
        self.names.pop()

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        self.names.append(node.name.value)
        first = node.decorators[0] if node.decorators else node.name
        self.functions.append(self.get_metadata(PositionProvider, first).start.line)
        return True

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        self.names.pop()
        self.functions.pop()

    def visit_Annotation(self, node: cst.Annotation) -> bool:
        return False

    def visit_Decorator(self, node: cst.Decorator) -> bool:
        return False

    def on_visit(self, node: cst.CSTNode) -> bool:
        if self.functions:
            for edit in edits_of(node, self._text):
                self._add(edit.node, edit.kind, edit.new)
        return bool(super().on_visit(node))

    def _text(self, node: cst.CSTNode) -> str:
        """Source of a node; a bare newline for one that spans lines, which no edit may contain."""
        place = self.get_metadata(PositionProvider, node)
        if place.start.line != place.end.line:
            return "\n"
        text: str = self.lines[place.start.line - 1][place.start.column : place.end.column]
        return text

    def _add(self, node: cst.CSTNode, kind: str, new: str) -> None:
        place = self.get_metadata(PositionProvider, node)
        old = self._text(node)
        if "\n" in old or "\n" in new:
            return
        start, end = place.start.column, place.end.column
        name = ".".join(self.names)
        line = place.start.line
        self.found.append(Mutation(self.path, name, self.functions[-1], line, start, end, kind, old, new))
