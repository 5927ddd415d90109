"""Tokenizers are loaded without PyTorch where that makes no difference."""

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from sweyard_trainer.gateway.rendering import GENERAL_CLASSES, ChatRenderer, load_tokenizer

CONVERSATION = [{"role": "user", "content": "two\n  words\tand \u00fc"}, {"role": "assistant", "content": "7"}]


@pytest.fixture
def directory(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> Path:
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


def name_class(directory: Path, name: str) -> None:
    file = directory / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "tokenizer_class": name}))


@pytest.mark.parametrize("name", sorted(GENERAL_CLASSES))
def test_a_general_tokenizer_is_as_transformers_would_choose_it(directory: Path, name: str) -> None:
    name_class(directory, name)
    ours, theirs = load_tokenizer(directory), AutoTokenizer.from_pretrained(directory)
    assert type(ours) is type(theirs)
    assert ours.eos_token_id == theirs.eos_token_id
    rendered = [one.apply_chat_template(CONVERSATION, tokenize=False) for one in (ours, theirs)]
    assert rendered[0] == rendered[1]
    assert ours.encode(rendered[0]) == theirs.encode(rendered[1])


def test_a_tokenizer_with_a_class_of_its_own_gets_it(directory: Path) -> None:
    name_class(directory, "Qwen2Tokenizer")
    assert type(load_tokenizer(directory)).__name__ == "Qwen2Tokenizer"
    assert ChatRenderer.load(directory).stop_token_ids
