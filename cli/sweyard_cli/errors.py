"""What a user did wrong or must know, without a traceback."""


class UserError(Exception):
    """One sentence for the user; the command ends with `exit_code`."""

    def __init__(self, message: str, *, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code
