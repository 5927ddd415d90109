"""Figures as JSON can hold them: a browser's parser knows neither NaN nor infinity."""

import math
from collections.abc import Mapping
from typing import Any


def finite(value: Any) -> Any:
    """The same, with None for each number that is none, throughout lists and mappings."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {name: finite(each) for name, each in value.items()}
        case list() | tuple():
            return [finite(each) for each in value]
    return value
