"""How much of an output a model is shown."""

OBSERVATION_CHARACTERS = 10_000


def shorten(text: str, limit: int = OBSERVATION_CHARACTERS) -> str:
    """Beginning and end, with a mark between that says how much is missing."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
