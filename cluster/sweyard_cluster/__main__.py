"""Entry point: the only place that reads the environment."""

import os
import sys

from .arguments import parser
from .commands import COMMANDS
from .errors import ClusterError
from .lifecycle import Tool
from .paths import Cache, cache_root
from .terminal import Progress


def main(argv: list[str]) -> int:
    """Run one command; 1 with a sentence on standard error when it cannot be done."""
    arguments = parser().parse_args(argv)
    environment = dict(os.environ)
    tool = Tool(Cache(cache_root(environment)), environment, Progress())
    try:
        COMMANDS[arguments.command](tool, arguments)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Whoever read our output has seen enough, as `head` does; nothing must be written to it at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("interrupted; the same command goes on where it stopped", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
