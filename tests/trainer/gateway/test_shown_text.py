"""What is told of a reply while it comes is the beginning of what its content will be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.gateway.shown_text import ShownText
from sweyard_trainer.gateway.tool_calls import CallForm, CoderForm, HermesForm

FORMS: list[CallForm | None] = [None, HermesForm(), CoderForm()]
PIECES = st.sampled_from(
    [
        *(
            "I look.",
            " ",
            "\n\n",
            "<",
            "<tool",
            "<tool_call>",
            "</tool_call>",
            "<function=a>",
            "</function>",
            "é",
            "漢字",
        ),
        *('<tool_call>{"name": "a"}</tool_call>', "<parameter=p>\n1\n</parameter>", "🙂", "\ufffd"),
    ]
)


@given(pieces=st.lists(PIECES, max_size=8), form=st.sampled_from(FORMS), cut=st.integers(1, 5), ends=st.booleans())
def test_nothing_is_told_that_is_no_content(
    renderer: ChatRenderer, pieces: list[str], form: CallForm | None, cut: int, ends: bool
) -> None:
    text = "".join(pieces)
    ids = renderer.reply_ids(text) if ends else renderer.content_ids(text)
    shown = ShownText(renderer, form)
    told = "".join(shown.take(ids[start : start + cut]) for start in range(0, len(ids), cut))
    content = form.parse(text, {}).content if form else text
    assert content.startswith(told)
    if form is None and not text.endswith("\ufffd"):
        assert told == content


@pytest.mark.parametrize("form", FORMS, ids=["no tools", "hermes", "coder"])
def test_words_are_told_as_they_come(renderer: ChatRenderer, form: CallForm | None) -> None:
    shown = ShownText(renderer, form)
    told = [shown.take([token_id]) for token_id in renderer.content_ids("hello world\n\nvalue")]
    assert "".join(told) == "hello world\n\nvalue"
    assert sum(map(bool, told)) > 2


def test_a_model_of_bytes_tells_by_the_token(renderer: ChatRenderer) -> None:
    assert renderer.tells_by_piece
