"""`python -m sweyard_cli`, `sweyard` and `kubectl sweyard`."""

import sys

INTERRUPTED = 130


def main() -> None:
    """Ctrl-C while all that there is to a command is loaded, which takes a second, ends it as later."""
    try:
        from sweyard_cli.main import main as run_command_line

        run_command_line()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
