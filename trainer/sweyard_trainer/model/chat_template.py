"""The chat template of scratch models: one special token opens a turn and says whose it is, one ends it.

Turns stand side by side with nothing between them, so rendering more turns never changes the ids of earlier ones.
"""

ROLES = ("system", "user", "assistant", "tool")
END = "<|end|>"
PAD = "<|pad|>"
SPECIAL_TOKENS = (PAD, END, *(f"<|{role}|>" for role in ROLES))

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|' + message['role'] + '|>' + message['content'] + '<|end|>' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)
