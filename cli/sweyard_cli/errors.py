"""What a user did wrong or must know, without a traceback."""


class UserError(Exception):
    """One sentence for the user; the command ends with `exit_code`."""

    def __init__(self, message: str, *, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def interrupted_making(go_on: str) -> UserError:
    """For Ctrl-C while a data set is made: what is kept, and the command that goes on."""
    return UserError(
        "interrupted; packages that were fetched and tasks that were verified are kept, and not verified again; "
        f"to go on: {go_on}",
        exit_code=130,
    )
