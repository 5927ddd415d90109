"""`python -m sweyard_operator`: the only place that reads the environment."""

import asyncio
import logging
import os
import signal
import socket
import sys

from sweyard_operator.errors import OperatorError
from sweyard_operator.main import serve
from sweyard_operator.settings import read_settings
from sweyard_operator.structured_logs import setup_logging

logger = logging.getLogger("sweyard_operator")


async def _serve_until_asked_to_end() -> None:
    settings = read_settings(os.environ, hostname=socket.gethostname(), pid=os.getpid())
    task = asyncio.current_task()
    assert task is not None
    # Process 1 of a container has no default action for SIGTERM; kopf takes over once it runs.
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    await serve(settings)


def main() -> int:
    """Exit code: 0 when asked to end, 1 when it cannot go on."""
    setup_logging()
    try:
        asyncio.run(_serve_until_asked_to_end())
    except asyncio.CancelledError:
        return 0
    except OperatorError as error:
        logger.error("%s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
