"""Claims a sandbox of the pool in rolloutpool.yaml and runs a command in it: python examples/pool/claim.py"""

import asyncio

from sweyard_sandbox.pool.pool import Pool


async def main() -> None:
    async with await Pool.connect(namespace="default", name="shared") as pool, pool.claim("python:3.12") as sandbox:
        result = await sandbox.run("python -c 'print(6 * 7)'", timeout_seconds=60)
        print(result.exit_code, result.text)


if __name__ == "__main__":
    asyncio.run(main())
