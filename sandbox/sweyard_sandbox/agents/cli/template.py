"""The words of a command, its variables and its files, with placeholders. Pure."""

import re
import shlex
from collections.abc import Mapping, Sequence

from sweyard_sandbox.errors import SweyardError

PLACEHOLDERS = ("prompt", "prompt_file", "home", "directory", "url", "token", "model")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class TemplateError(SweyardError, ValueError):
    """A placeholder that there is not; the message is a sentence for the user."""


def fill(template: str, values: Mapping[str, str]) -> str:
    """`{name}` replaced where `name` is a placeholder; other braces stay, since JSON is full of them."""
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), template)


def shell_command(words: Sequence[str], values: Mapping[str, str]) -> str:
    """One line for a shell. A word may hold anything, a prompt that begins with a dash too: nothing is split again."""
    return " ".join(shlex.quote(fill(word, values)) for word in words)


def check_words(words: Sequence[str]) -> None:
    """Raises TemplateError for a word like `{promt}`."""
    for word in words:
        for name in _PLACEHOLDER.findall(word):
            if name not in PLACEHOLDERS:
                known = ", ".join(f"{{{known}}}" for known in PLACEHOLDERS)
                raise TemplateError(f"agent.command: there is no placeholder {{{name}}}; there are {known}")
