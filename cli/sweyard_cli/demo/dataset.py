"""The demo's data set: bugs put into three small packages of other people."""

import os
from pathlib import Path

from sweyard_api.cache_root import cache_root
from sweyard_api.constants import DEMO_DATASET
from sweyard_cli.disk import writes_to
from sweyard_cli.errors import UserError, interrupted_making

PACKAGES = ("cachetools==6.2.0", "mistune==3.1.0")
UNSEEN_PACKAGES = ("toolz==1.0.0",)
TRAIN, HELDOUT, UNSEEN = 100, 40, 20
KINDS = frozenset({
    "equality", "boundary", "boolean_operator", "not_added", "arithmetic", "identity", "membership", "extreme",
    "boolean_literal", "loop_exit", "return_negated", "constant", "comparison_direction",
})  # fmt: skip
"""Bugs whose repair a model of a million parameters can infer from the line alone."""


def make_demo_dataset(go_on: str) -> Path:
    """Its folder. What was verified by an earlier call is not verified again; `go_on` is the command that calls again.

    Raises UserError.
    """
    from sweyard_sandbox.tasks.make import Options, Quotas
    from sweyard_sandbox.tasks.making import Making, run
    from sweyard_sandbox.tasks.source import SourceError

    quotas = Quotas(TRAIN, HELDOUT, UNSEEN)
    making = Making(
        name=DEMO_DATASET,
        cache=cache_root(os.environ),
        packages=PACKAGES,
        unseen_packages=UNSEEN_PACKAGES,
        options=Options(quotas=quotas, kinds=KINDS, jobs=(os.cpu_count() or 1) + 1),
    )
    try:
        with writes_to(making.cache):
            return run(making)
    except SourceError as error:
        raise UserError(f"the demo's data set cannot be made: {error}", exit_code=1) from error
    except KeyboardInterrupt as interrupt:
        raise interrupted_making(go_on) from interrupt
