"""The content of a reply while its tokens come: as much of it as stays content whatever follows. Pure."""

from collections.abc import Sequence

from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.gateway.tool_calls import CallForm

_HALF_A_CHARACTER = "\ufffd"


class ShownText:
    """Of one reply. What it tells, piece by piece, is the beginning of what the reply's content will be."""

    def __init__(self, renderer: ChatRenderer, form: CallForm | None) -> None:
        """`form` is that of calls, where tools are offered: these are told of once they are whole."""
        self._renderer = renderer
        self._form = form
        self._token_ids: list[int] = []
        self._num_read = 0
        self._text = ""
        self._num_told = 0

    def take(self, token_ids: Sequence[int]) -> str:
        """More of the reply's tokens; what more of its content is certain now."""
        self._token_ids += token_ids
        new = self._renderer.text(self._token_ids[self._num_read :])
        if new.endswith(_HALF_A_CHARACTER):
            return ""
        self._num_read = len(self._token_ids)
        self._text += new
        sure = certain_length(self._text, self._form)
        piece = self._text[self._num_told : sure]
        self._num_told = max(self._num_told, sure)
        return piece


def certain_length(text: str, form: CallForm | None) -> int:
    """Of the beginning of a reply, how many characters are content whether or not calls follow."""
    if form is None:
        return len(text)
    begun = [at for mark in form.marks if (at := text.find(mark)) >= 0]
    end = min(begun, default=len(text) - max(_overlap(text, mark) for mark in form.marks))
    return len(text[:end].rstrip())  # white space before a call may be none of it


def _overlap(text: str, mark: str) -> int:
    """How much of `mark` the text ends with."""
    return next((length for length in range(len(mark) - 1, 0, -1) if text.endswith(mark[:length])), 0)
