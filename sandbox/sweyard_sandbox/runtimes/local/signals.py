"""Commands find every signal at its default: `nohup`, or a shell's `&`, makes what it starts ignore some for good."""

import signal

RESETTABLE = tuple(sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}))


def reset_signals() -> None:
    """Of this process, before it becomes a command."""
    for number in RESETTABLE:
        signal.signal(number, signal.SIG_DFL)
