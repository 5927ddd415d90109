from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from sweyard_trainer.model.chat_template import SPECIAL_TOKENS
from sweyard_trainer.model.tokenizer import learn_tokenizer

TEXTS = ["def add(left, right):\n    return left + right\n", "e 12 a|b", "naïve café\t☃"]
TOKENIZER = learn_tokenizer(TEXTS, vocabulary_size=320, max_length=512)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["system", "user", "assistant", "tool"]),
            "content": st.text(max_size=40).filter(lambda text: not any(token in text for token in SPECIAL_TOKENS)),
        }
    ),
    min_size=1,
    max_size=5,
)


def ids_of(messages: list[dict[str, str]], *, reply_follows: bool = False) -> list[int]:
    text = TOKENIZER.apply_chat_template(messages, tokenize=False, add_generation_prompt=reply_follows)
    return list(TOKENIZER.encode(text, add_special_tokens=False))


@given(MESSAGES, MESSAGES)
def test_appending_turns_never_changes_earlier_ids(earlier: list[dict[str, str]], later: list[dict[str, str]]) -> None:
    before, after = ids_of(earlier), ids_of([*earlier, *later])
    assert after[: len(before)] == before


@given(MESSAGES, st.text(max_size=40))
def test_a_sampled_reply_continues_its_prompt_exactly(messages: list[dict[str, str]], reply: str) -> None:
    prompt = ids_of(messages, reply_follows=True)
    sampled = [*TOKENIZER.encode(reply, add_special_tokens=False), TOKENIZER.eos_token_id]
    assert [*prompt, *sampled] == ids_of([*messages, {"role": "assistant", "content": reply}])


@given(st.text())
def test_any_text_comes_back_byte_for_byte(text: str) -> None:
    if not any(token in text for token in SPECIAL_TOKENS):
        assert TOKENIZER.decode(TOKENIZER.encode(text, add_special_tokens=False)) == text


def test_digits_stay_apart() -> None:
    tokens = TOKENIZER.convert_ids_to_tokens(TOKENIZER.encode("1234", add_special_tokens=False))
    assert tokens == ["1", "2", "3", "4"]


def test_every_turn_ends_by_the_stop_token() -> None:
    ids = ids_of([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
    assert ids.count(TOKENIZER.eos_token_id) == 2
    assert ids[-1] == TOKENIZER.eos_token_id


def test_learning_is_deterministic_and_bounded() -> None:
    again = learn_tokenizer(TEXTS, vocabulary_size=320, max_length=512)
    assert again.get_vocab() == TOKENIZER.get_vocab()
    assert len(TOKENIZER) <= 320


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    TOKENIZER.save_pretrained(tmp_path)
    return tmp_path


def test_it_loads_again_with_its_template(saved: Path) -> None:
    loaded = AutoTokenizer.from_pretrained(saved)
    assert isinstance(loaded, PreTrainedTokenizerFast)
    assert loaded.chat_template == TOKENIZER.chat_template
    assert loaded.encode("return left + 12") == TOKENIZER.encode("return left + 12")
    assert loaded.eos_token_id == TOKENIZER.eos_token_id
