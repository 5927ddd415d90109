"""Server-sent events: which topics have changed. A browser asks again for what it shows of them."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping

from sweyard_cli.errors import UserError
from sweyard_cli.ui.sources import topics_of

Stamps = Callable[[], Mapping[str, object]]
"""By topic what differs when there is news of it."""
_BEATS_BETWEEN_WORDS = 15
"""A silent stream is cut by what lies between; a comment each 15 looks keeps it."""


async def stream_news(
    stamps: Stamps, *, interval_seconds: float, is_ending: Callable[[], bool] = lambda: False
) -> AsyncIterator[str]:
    """Until the browser leaves, or the server is ending.

    Begins with `hello`, so that a browser that comes back knows that it may have missed some.
    """
    yield "event: hello\ndata: {}\n\n"
    before = await _ask(stamps, {})
    silent = 0
    while not is_ending():
        await asyncio.sleep(interval_seconds)
        after = await _ask(stamps, before)
        if topics := topics_of(before, after):
            yield f"event: news\ndata: {json.dumps(topics)}\n\n"
            silent = 0
        elif (silent := silent + 1) >= _BEATS_BETWEEN_WORDS:
            yield ": still here\n\n"
            silent = 0
        before = after


async def _ask(stamps: Stamps, before: Mapping[str, object]) -> Mapping[str, object]:
    """A source that cannot be asked now has no news."""
    try:
        return await asyncio.to_thread(stamps)
    except (UserError, OSError):
        return before
