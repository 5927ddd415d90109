"""Tools as a chat template offers them, in the form of OpenAI's API: for models that were trained to call them so."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

Offered = Mapping[str, Any]
_TEXT = "string"


def function(
    name: str, description: str, parameters: Mapping[str, tuple[str, str]], required: Sequence[str]
) -> Offered:
    """One tool; `parameters` by name are the JSON type and a description."""
    properties = {key: {"type": kind, "description": told} for key, (kind, told) in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def offer(*tools: Offered) -> str:
    """The JSON text of `tools`."""
    return json.dumps(tools, ensure_ascii=False)


FILE_EDITOR = function(
    "file_editor",
    "Look at files and change them.",
    {
        "command": (_TEXT, "One of view, create, str_replace, insert and undo_edit."),
        "path": (_TEXT, "A file, or for view also a directory."),
        "view_range": ("array", "For view: the lines to show, as [first, last]."),
        "file_text": (_TEXT, "For create: the whole text."),
        "old_str": (_TEXT, "For str_replace: what occurs exactly once in the file."),
        "new_str": (_TEXT, "For str_replace and insert: what comes there."),
        "insert_line": ("integer", "For insert: the number of the line that new_str goes after."),
    },
    required=("command", "path"),
)
BASH = function(
    "execute_bash",
    "Run a command in the shell. Nothing is kept between commands except files.",
    {"cmd": (_TEXT, "The command; it gets no input and is stopped when it takes too long.")},
    required=("cmd",),
)
SEARCH = function(
    "search",
    "Find the lines that contain a text.",
    {
        "search_term": (_TEXT, "The text, literally."),
        "path": (_TEXT, "A file or directory; default the whole repository."),
    },
    required=("search_term",),
)
FINISH = function(
    "finish",
    "Hand in your work, once the problem is solved.",
    {"result": (_TEXT, "One sentence about what you did.")},
    required=(),
)
