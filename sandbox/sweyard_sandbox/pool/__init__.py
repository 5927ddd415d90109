"""The pool client: claims sandboxes from a RolloutPool, inside and outside the cluster. No controller in between.

from sweyard_sandbox.pool.pool import Pool

async with await Pool.connect(namespace="default", name="pool") as pool:
    async with pool.claim("registry/image:tag") as sandbox:
        print((await sandbox.run("ls", timeout_seconds=10)).text)
"""
