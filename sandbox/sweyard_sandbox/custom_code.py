"""A user's own code by import path (`pkg.module:name`): reward, estimator, group filter, agent.

The module must be importable where the trainer runs: installed in trainer.image, or on a laptop anywhere on PYTHONPATH.
"""

import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sweyard_sandbox.errors import SweyardError


class CustomCodeError(SweyardError, ValueError):
    """It cannot be used; the sentence names the field, the value and the remedy."""


def load_function(field: str, path: str, parameters: str) -> Callable[..., Any]:
    """What `path` names, once it is sure to take `parameters` ("task, attempt") by position. Raises CustomCodeError."""
    module_name, _, name = path.partition(":")
    try:
        with users_faults(f"{field}: {path!r} fails when {module_name} is imported,", ImportError):
            found = getattr(importlib.import_module(module_name), name, None)
    except ImportError as error:
        raise CustomCodeError(
            f"{field}: {path!r} cannot be imported ({error}); put its module on PYTHONPATH or into trainer.image"
        ) from error
    if found is None:
        raise CustomCodeError(f"{field}: {path!r} does not exist: {module_name} has no {name}")
    if not callable(found) or inspect.iscoroutinefunction(found):
        raise CustomCodeError(f"{field}: {path!r} must be a plain function of ({parameters})")
    function: Callable[..., Any] = found
    try:
        inspect.signature(function).bind(*parameters.split(", "))
    except (TypeError, ValueError) as error:  # of some builtins nobody knows what they take
        raise CustomCodeError(f"{field}: {path!r} must take ({parameters}), but {error}") from error
    return function


@contextmanager
def users_faults(what: str, *meant: type[Exception]) -> Iterator[None]:
    """What a user's function raises, but for `meant`, and its `exit()` become `WHAT by KIND: MESSAGE`.

    Raises CustomCodeError.
    """
    try:
        yield
    except CustomCodeError:
        raise
    except meant:
        raise
    except (Exception, SystemExit) as error:
        raise CustomCodeError(f"{what} by {type(error).__name__}: {error}") from error
