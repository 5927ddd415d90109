"""Any Python text as valid UTF-8, exactly.

A model, or what it ran, may leave half of a surrogate pair in a text, which UTF-8 and so Arrow and Parquet cannot hold.
Such a code point is written as U+10FFFF, a noncharacter that text never has, and its four hexadecimal digits; U+10FFFF
itself as U+10FFFF and "ffff". All other text is left as it is.
"""

import re

_ESCAPE = "\U0010ffff"
_UNSAFE = re.compile("[\ud800-\udfff\U0010ffff]")
_ESCAPED = re.compile(f"{_ESCAPE}([0-9a-f]{{4}})")


def escape(text: str) -> str:
    """Text that has a form in UTF-8."""
    return _UNSAFE.sub(lambda found: f"{_ESCAPE}{ord(found[0]) & 0xFFFF:04x}", text)


def unescape(text: str) -> str:
    """Inverse of `escape`."""
    return _ESCAPED.sub(lambda found: _ESCAPE if found[1] == "ffff" else chr(int(found[1], 16)), text)
