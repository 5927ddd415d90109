"""YAML as kubectl reads it.

PyYAML alone differs where it hurts: it reads 1e-6 as a string, 12:30 as the number 750, 2026-01-01 as a date, and
takes the last of two equal keys without a word.
"""

import re
from collections.abc import Hashable
from typing import Any

import yaml

_FLOAT = re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$")
_INT = re.compile(r"^[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$")
_REPLACED = {"tag:yaml.org,2002:float", "tag:yaml.org,2002:int", "tag:yaml.org,2002:timestamp"}


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                message = f"the key {key!r} is set twice"
                raise yaml.constructor.ConstructorError(None, None, message, key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


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
