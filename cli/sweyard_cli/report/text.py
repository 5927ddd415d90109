"""Text of attempts as a page may show it: bounded, and with nothing invisible in it."""

_CONTROL_PICTURES = 0x2400
_SHOWN_AS_THEY_ARE = "\n\t"


def visible(text: str) -> str:
    """Control characters as pictures; odd spaces and marks that change the direction of text as their code points.

    What a browser would hide or reorder, readers must see: the text comes from a model.
    """
    return "".join(map(_visible_character, text))


def _visible_character(character: str) -> str:
    if character in _SHOWN_AS_THEY_ARE or character.isprintable():
        return character
    code = ord(character)
    return chr(_CONTROL_PICTURES + code) if code < 0x20 else f"<U+{code:04X}>"


def cut(text: str, limit: int) -> str:
    """At most about `limit` characters: the beginning and the end, and a mark that says what is missing."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit - limit * 2 // 3
    return f"{text[:head]}\n[... {len(text) - limit:,} characters left out ...]\n{text[-tail:]}"


def shown(text: str, limit: int) -> str:
    """Cut, then visible."""
    return visible(cut(text, limit))
