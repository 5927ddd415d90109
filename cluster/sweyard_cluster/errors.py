"""The one error that the command line shows without a traceback."""


class ClusterError(Exception):
    """What went wrong and what to do about it, in a sentence for the person at the terminal."""
