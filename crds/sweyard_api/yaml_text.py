"""YAML as kubectl reads it.

PyYAML alone differs where it hurts: it reads 1e-6 as a string, 12:30 as the number 750, 2026-01-01 as a date, and
takes the last of two equal keys without a word.
"""

import re
from typing import Any

import yaml

_FLOAT = re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$")
_INT = re.compile(r"^[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$")
_REPLACED = {"tag:yaml.org,2002:float", "tag:yaml.org,2002:int", "tag:yaml.org,2002:timestamp"}


MAX_DEPTH = 100
MAX_NODES = 100_000
"""Values in a file, each alias counted as what it stands for."""
_MERGE = "tag:yaml.org,2002:merge"
_SHOWN_CHARACTERS = 40


class _Loader(yaml.SafeLoader):
    """Refuses what would be lost, what has no end and what is out of all proportion, with the line."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._around: list[yaml.Node | None] = []
        self._sizes: dict[yaml.Node, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        self._around.append(parent)
        if len(self._around) > MAX_DEPTH:
            raise yaml.composer.ComposerError(None, None, f"it is nested more than {MAX_DEPTH} deep", mark)
        node = super().compose_node(parent, index)
        if node in self._around:
            raise yaml.composer.ComposerError(None, None, "it contains itself, through an alias", mark)
        self._around.pop()
        if node is not None and self._size(node) > MAX_NODES:
            raise yaml.composer.ComposerError(None, None, f"it stands for more than {MAX_NODES} values", mark)
        return node

    def _size(self, node: yaml.Node) -> int:
        if node not in self._sizes:
            children = node.value if isinstance(node, yaml.CollectionNode) else []
            pairs = children if isinstance(node, yaml.SequenceNode) else [part for pair in children for part in pair]
            self._sizes[node] = 1 + sum(map(self._size, pairs))
        return self._sizes[node]

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Keys are strings, as in the JSON that kubectl makes of it."""
        mapping = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in mapping.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a word", key.start_mark)
            if key.tag != _MERGE:
                key.tag = "tag:yaml.org,2002:str"
            if key.value in seen:
                message = f"the key {key.value[:_SHOWN_CHARACTERS]!r} is set twice"
                raise yaml.constructor.ConstructorError(None, None, message, key.start_mark)
            seen.add(key.value)
        return mapping

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Where an explicit tag promises another value than there is, PyYAML lets Python's own errors through."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError) as error:
            message = f"{str(node.value)[:_SHOWN_CHARACTERS]!r} cannot be read as {node.tag.rpartition(':')[2]}"
            raise yaml.constructor.ConstructorError(None, None, message, node.start_mark) from error


def _read_int(loader: _Loader, node: yaml.ScalarNode) -> int:
    value = loader.construct_yaml_int(node)
    if not -(2**63) <= value < 2**63:
        raise ValueError("the API server keeps whole numbers in 64 bits")
    return value


def _refuse_tag(loader: _Loader, node: yaml.Node) -> None:
    message = f"the tag {node.tag.replace('tag:yaml.org,2002:', '!!')} has no meaning here: leave it out"
    raise yaml.constructor.ConstructorError(None, None, message, node.start_mark)


_NO_JSON = {f"tag:yaml.org,2002:{name}" for name in ("binary", "omap", "pairs", "set", "timestamp")}
_Loader.yaml_constructors = {
    tag: made for tag, made in yaml.SafeLoader.yaml_constructors.items() if tag not in _NO_JSON
}
_Loader.add_constructor("tag:yaml.org,2002:int", _read_int)
_Loader.add_constructor(None, _refuse_tag)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _REPLACED]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INT, list("-+0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))


def load_documents(text: str) -> list[Any]:
    """All documents of a file, empty ones left out. Raises yaml.YAMLError."""
    return [document for document in yaml.load_all(text, Loader=_Loader) if document is not None]


def load_document(text: str) -> Any:
    """The only document of a file. Raises yaml.YAMLError, also for more than one."""
    return yaml.load(text, Loader=_Loader)


_MISINDENTED = "the indentation does not fit the lines above it"
_COLON = "mapping values are not allowed here"
_WORDS = {
    _COLON: "a second colon in one line: put the value in quotes, or indent it below",
    "expected <block end>": _MISINDENTED,
    "expected ',' or": "a bracket is not closed, or a comma is missing",
    "found character '\\t'": "a tab: indent with spaces",
    "that cannot start any token": "no value begins with this sign: put it in quotes",
    "found unexpected end of stream": "a quote is not closed",
    "expected the node content": "a value is missing, or a bracket is not closed",
    "could not find expected ':'": "a key without a colon",
}
"""PyYAML's words that only a parser's author understands, by a part of them."""


def _in_words(problem: str, mark: yaml.Mark) -> str:
    if _COLON in problem and _is_first_colon(mark):  # the line was taken for more of the value above it
        return _MISINDENTED
    return next((words for part, words in _WORDS.items() if part in problem), problem)


def _is_first_colon(mark: yaml.Mark) -> bool:
    before = (mark.buffer or "")[: mark.pointer].rpartition("\n")[2]
    return re.search(r":\s", before) is None


def explain(error: yaml.YAMLError) -> str:
    """One line: what is wrong, and where."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        where = f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}"
        return f"{where}: {_in_words(error.problem or str(error.context), error.problem_mark)}"
    if isinstance(error, yaml.reader.ReaderError):
        return f"the sign with the number {error.character} at position {error.position} is no text: take it out"
    return " ".join(str(error).split())
