"""Kubernetes quantities as numbers."""

_FACTORS = {
    "": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
}  # fmt: skip


def parse_quantity(text: str) -> float:
    """The number that a quantity such as 500m or 4Gi stands for. Raises ValueError."""
    number = text.rstrip("mkKMGTPi")
    suffix = text[len(number) :]
    if suffix not in _FACTORS:
        raise ValueError(f"{text!r} is no quantity")
    return float(number) * _FACTORS[suffix]
