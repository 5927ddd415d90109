"""What the page was asked for and has not."""

from sweyard_cli.errors import UserError


class NotThereError(UserError):
    """It is not there, or no longer."""
