"""Chat templates that offer tools and say how to call them, in two words each."""

from tests.trainer.gateway.conftest import CHATML

TOOLS = (
    "{% if tools %}<|im_start|>system\n{% for tool in tools %}{{ tool | tojson }}{% endfor %}HOW<|im_end|>\n{% endif %}"
)
HERMES = TOOLS.replace("HOW", '<tool_call>{"name": "", "arguments": {}}</tool_call>') + CHATML
CODER = TOOLS.replace("HOW", "<tool_call><function=x><parameter=y>z</parameter></function></tool_call>") + CHATML
