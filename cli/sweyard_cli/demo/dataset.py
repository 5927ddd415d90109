"""The demo's data set: bugs put into three small packages of other people."""

import os
from pathlib import Path

from sweyard_api.constants import DEMO_DATASET
from sweyard_cli.errors import UserError, interrupted_making

KINDS = (
    "equality,boundary,boolean_operator,not_added,arithmetic,identity,membership,extreme,boolean_literal,loop_exit,"
    "return_negated,constant,comparison_direction"
)
"""Bugs whose repair a model of a million parameters can infer from the line alone."""
ARGUMENTS = (
    *("--name", DEMO_DATASET, "--package", "cachetools==6.2.0", "--package", "mistune==3.1.0"),
    *("--unseen-package", "toolz==1.0.0", "--train", "100", "--heldout", "40", "--unseen", "20", "--kinds", KINDS),
)


def make_demo_dataset(go_on: str) -> Path:
    """Its folder. What was verified by an earlier call is not verified again; `go_on` is the command that calls again.

    Raises UserError.
    """
    from sweyard_sandbox.tasks.command import parser, run
    from sweyard_sandbox.tasks.source import SourceError

    try:
        return run(parser(os.environ).parse_args(ARGUMENTS))
    except SourceError as error:
        raise UserError(f"the demo's data set cannot be made: {error}", exit_code=1) from error
    except KeyboardInterrupt as interrupt:
        raise interrupted_making(go_on) from interrupt
