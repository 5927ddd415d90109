"""Tokenizers that work as those of Qwen3 and Qwen3-Coder do, small and without a network.

The pipeline (normaliser, pre-tokeniser, byte level, added tokens) is transformers' own class for Qwen; only the
vocabulary is small, so that most characters beyond ASCII are several tokens. The templates are written anew from what
the models' own ones do to plain messages.
"""

from tokenizers import AddedToken
from tokenizers.pre_tokenizers import ByteLevel
from transformers.models.qwen2.tokenization_qwen2 import Qwen2Tokenizer

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
ADDED = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
"""Single tokens that decoding does not skip."""
WORDS = ("user", "assistant", "system", "return", "hello")

QWEN3 = """
{%- set query = namespace(index=messages|length - 1, sought=true) -%}
{%- for message in messages[::-1] -%}
  {%- if query.sought and message.role == 'user'
        and not ('<tool_response>' in message.content and '</tool_response>' in message.content) -%}
    {%- set query.sought = false -%}{%- set query.index = messages|length - 1 - loop.index0 -%}
  {%- endif -%}
{%- endfor -%}
{%- for message in messages -%}
  {%- if message.role == 'tool' -%}
    {%- if loop.first or loop.previtem.role != 'tool' -%}{{- '<|im_start|>user' -}}{%- endif -%}
    {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' -}}
    {%- if loop.last or loop.nextitem.role != 'tool' -%}{{- '<|im_end|>\\n' -}}{%- endif -%}
  {%- elif message.role == 'assistant' -%}
    {%- set thought, said = '', message.content -%}
    {%- if '</think>' in message.content -%}
      {%- set said = message.content.split('</think>')[-1].lstrip('\\n') -%}
      {%- set thought = message.content.split('</think>')[0].split('<think>')[-1].strip('\\n') -%}
    {%- endif -%}
    {{- '<|im_start|>assistant\\n' -}}
    {%- if loop.index0 > query.index and (loop.last or thought) -%}
      {{- '<think>\\n' + thought + '\\n</think>\\n\\n' -}}
    {%- endif -%}
    {{- said + '<|im_end|>\\n' -}}
  {%- else -%}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""
"""Thoughts before the last query are dropped from history; tool results side by side are one turn of the user."""

QWEN3_CODER = """
{%- for message in messages -%}
  {%- if message.role == 'tool' -%}
    {%- if loop.previtem and loop.previtem.role != 'tool' -%}{{- '<|im_start|>user\\n' -}}{%- endif -%}
    {{- '<tool_response>\\n' + message.content + '\\n</tool_response>\\n' -}}
    {%- if loop.last or loop.nextitem.role != 'tool' -%}{{- '<|im_end|>\\n' -}}{%- endif -%}
  {%- else -%}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""
"""No thoughts; a line break ends each tool result, also the last."""


def qwen_tokenizer(template: str) -> Qwen2Tokenizer:
    """With one of the templates above."""
    pieces = sorted(ByteLevel.alphabet())
    merges: list[tuple[str, str]] = []
    for word in WORDS:
        for end in range(1, len(word)):
            merges.append((word[:end], word[end]))
            pieces.append(word[: end + 1])
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Qwen2Tokenizer(vocabulary, list(dict.fromkeys(merges)), eos_token="<|im_end|>")
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in ADDED])
    tokenizer.chat_template = template
    return tokenizer
