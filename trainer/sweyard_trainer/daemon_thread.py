"""A call in a thread that nobody waits for at the end of the process, as a hung one would keep it for ever.

asyncio.to_thread's threads are joined when the event loop closes.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


def in_daemon_thread(function: Callable[..., T], *arguments: Any) -> "asyncio.Future[T]":
    """Begin `function(*arguments)`; its result, or what it raised."""
    result: Future[T] = Future()
    result.set_running_or_notify_cancel()  # from here on it cannot be cancelled, only left alone
    threading.Thread(target=_run, args=(result, function, arguments), name="daemon-call", daemon=True).start()
    return asyncio.wrap_future(result)


def _run(result: "Future[T]", function: Callable[..., T], arguments: tuple[Any, ...]) -> None:
    try:
        result.set_result(function(*arguments))
    except BaseException as error:
        result.set_exception(error)
