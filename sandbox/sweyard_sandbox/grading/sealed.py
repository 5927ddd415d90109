"""Sandboxes for grading, which see the hidden tests: nobody may ever get one of them after that, however well reset.

The other way round is no risk. A sandbox that was recycled into one for grading was proved clean, and all that served
in it before knew no more than the work that is graded.
"""

from sweyard_sandbox.runtime import MayServeAgain, Runtime, Sandbox


async def acquire_sealed(runtime: Runtime, image: str, *, deadline_seconds: float) -> Sandbox:
    """A fresh sandbox that is destroyed when it is closed. Raises as `Runtime.acquire` does."""
    sandbox = await runtime.acquire(image, deadline_seconds=deadline_seconds)
    if isinstance(sandbox, MayServeAgain):
        sandbox.forbid_reuse()
    return sandbox
