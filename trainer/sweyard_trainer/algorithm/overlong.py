"""Soft punishment of overlong attempts (DAPO, arXiv 2503.14476, equation 13)."""


def overlong_penalty(num_tokens: int, max_tokens: int, buffer_tokens: int, most: float) -> float:
    """What an attempt of `num_tokens` loses of its reward, between 0 and `most`.

    Nothing up to `max_tokens - buffer_tokens`, then in proportion, all of it at `max_tokens`.
    """
    excess = num_tokens - (max_tokens - buffer_tokens)
    return most * min(max(excess, 0), buffer_tokens) / buffer_tokens
