"""Entry point: the only place that reads the environment."""

import errno
import os
import sys
from pathlib import Path

from .arguments import parser
from .commands import COMMANDS
from .errors import ClusterError
from .foreground import end_as_told
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
    except OSError as error:
        print(f"error: {sentence(error, tool.cache.root)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the same command goes on where it stopped", file=sys.stderr)
        return 130
    return 0


def sentence(error: OSError, cache: Path) -> str:
    """What the system refused, where, and the remedy. A write to an open file tells no name: most lie in the cache."""
    place = error.filename or f"something below {cache}"
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return f"no space left for {place}: make some, or name another place by SWEYARD_CACHE, and run it again"
        case errno.EROFS | errno.EACCES | errno.EPERM:
            return f"{place} cannot be written ({error.strerror}): mend its permissions, or set SWEYARD_CACHE"
        case _:
            return f"{place}: {error.strerror or error}"


if __name__ == "__main__":
    end_as_told()
    sys.exit(main(sys.argv[1:]))
