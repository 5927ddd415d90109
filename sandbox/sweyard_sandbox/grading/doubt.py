"""Failures that look like those of infrastructure, and that the work may have brought about to escape its verdict."""

from collections.abc import Awaitable, Callable

from sweyard_sandbox.errors import InfrastructureError
from sweyard_sandbox.grading.grade import Grade


class DoubtfulFailureError(InfrastructureError):
    """Broken, by the word of something that the work could reach."""


async def believe(evaluate: Callable[[str], Awaitable[Grade]], patch: str) -> Grade:
    """The grade of `patch`; unsolved where what is broken with it is whole without it.

    Raises InfrastructureError where it is broken without the work, too.
    """
    try:
        return await evaluate(patch)
    except DoubtfulFailureError as error:
        if not patch.strip():
            raise
        await evaluate("")
        return Grade(False, False, (f"{error.message}; without the work it is not so",), log=error.message)
