"""JSON that is YAML too, for what reads all that it is given as YAML: an API server that is to apply something.

JSON writes a character beyond U+FFFF, such as most emoji, as two escapes of a surrogate each; YAML refuses these. Bare,
it takes such a character, but not all of the others, and some it takes for the end of a line.
"""

import json
import re
from typing import Any

_BARE = re.compile("[\x7f-\uffff]")
_REPLACEMENT = 0xFFFD


def json_in_yaml(value: Any) -> str:
    """`value` as JSON; a surrogate that stands alone, which no text may hold, as U+FFFD."""
    return _BARE.sub(_escape, json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\u{_REPLACEMENT if 0xD800 <= code <= 0xDFFF else code:04x}"
