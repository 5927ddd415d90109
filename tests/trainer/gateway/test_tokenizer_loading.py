"""Tokenizers are loaded without PyTorch where that makes no difference."""

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from sweyard_sandbox.agents.protocol import Message
from sweyard_trainer.gateway.rendering import GENERAL_CLASSES, ChatRenderer, TemplateUnfitError, load_tokenizer

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


TURN = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        pytest.param(None, "the tokenizer has no chat template", id="none"),
        pytest.param(
            TURN + "</s>{% endfor %}", "ends an assistant message by '</s>', which is not one token", id="end"
        ),
        pytest.param(TURN + "{% endfor %}", "ends an assistant message by '', which is not one token", id="no-end"),
        pytest.param("{{ messages[0].content }}<|im_end|>", "leaves out what the assistant said", id="users-only"),
        pytest.param(
            "{{ raise_exception('only tools') }}", "refuses a conversation of user, assistant: only tools", id="refuses"
        ),
        pytest.param("{% for m in messages %}", "refuses a conversation of user, assistant: ", id="no-template"),
    ],
)
def test_a_model_without_a_template_of_turns_is_refused_by_name(
    directory: Path, tokenizer: PreTrainedTokenizerFast, template: str | None, sentence: str
) -> None:
    (directory / "chat_template.jinja").unlink()
    if template is not None:
        (directory / "chat_template.jinja").write_text(template)
    with pytest.raises(TemplateUnfitError) as caught:
        ChatRenderer.load(directory)
    assert str(caught.value).startswith(f"model.name: of the model at {directory}, the ")
    assert sentence in str(caught.value)
    assert str(caught.value).endswith("or add a template to its directory")


def test_a_directory_without_a_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(TemplateUnfitError, match=r"^model.name: the model at .* has no tokenizer_config.json; take"):
        ChatRenderer.load(tmp_path)


def test_a_conversation_that_the_template_refuses_is_told_by_its_roles(directory: Path) -> None:
    refusing = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    (directory / "chat_template.jinja").write_text(refusing + TURN + "<|im_end|>{% endfor %}")
    renderer = ChatRenderer.load(directory)
    with pytest.raises(TemplateUnfitError, match="refuses a conversation of system, user: no system"):
        renderer.prompt_ids([Message("system", "be kind"), Message("user", "?")])
