"""The terminal: colours and live tables on one, plain lines in a pipe."""

from rich.console import Console


def make_console(*, stderr: bool = False) -> Console:
    """A console that never wraps plain output: logs and pipes keep one line a fact."""
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console = Console(stderr=stderr, highlight=False, width=10_000, no_color=True, soft_wrap=True)
    return console
