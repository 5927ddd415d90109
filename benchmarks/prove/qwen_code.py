"""qwen-code itself, from npm, in a sandbox without a network, against the gateway and a scripted engine.

    python -m benchmarks.prove.qwen_code [--attempts 4]

It must solve a task by its own tools, what is recorded must be what the engine sent, and nothing may fork. Needs npm.
"""

import argparse
import asyncio
import os
import subprocess
import tempfile
from pathlib import Path

from benchmarks.prove.qwen_code_attempts import (
    VERSION,
    ScriptedModel,
    UntiringEngine,
    attempt,
    is_wrong,
    make_gateway,
    make_renderer,
)
from benchmarks.scripted_attempts import make_task

from sweyard_api.cache_root import cache_root
from sweyard_sandbox.runtimes.local.runtime import LocalConfig, LocalRuntime
from sweyard_trainer.gateway.client import InProcessGateway

PACKAGE = f"@qwen-code/qwen-code@{VERSION}"


def install(folder: Path) -> None:
    """The package and the Node.js of this machine, as images/qwen-code has them. Kept from run to run."""
    if (folder / "bin" / "qwen").exists():
        return
    subprocess.run(
        ["npm", "install", "--global", "--prefix", str(folder), "--no-fund", "--no-audit", "--silent", PACKAGE],
        check=True,
    )


async def prove(attempts: int, tools: Path) -> int:
    """Number of attempts that are not as they must be."""
    renderer = make_renderer()
    models = [ScriptedModel(renderer) for _ in range(attempts)]
    config = LocalConfig()
    config = LocalConfig(read_only_paths=(*config.read_only_paths, str(tools)), max_sandboxes=2 * attempts)
    runtime = LocalRuntime(config)

    def gateway(number: int) -> InProcessGateway:
        engines = [UntiringEngine(models[number])]
        return InProcessGateway(make_gateway(renderer), engines, new_token=lambda: f"token-{number}")

    with tempfile.TemporaryDirectory() as tree:
        task = make_task(Path(tree))
        try:
            done = await asyncio.gather(
                *(attempt(task, runtime, gateway(number), str(tools), number) for number in range(attempts))
            )
        finally:
            await runtime.close()
    return sum(map(is_wrong, done, models))


def main() -> None:
    """Install, run; exit code 1 if anything is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attempts", type=int, default=4)
    arguments = parser.parse_args()
    tools = cache_root(os.environ) / "tools" / PACKAGE.rsplit("/", 1)[-1]
    install(tools)
    raise SystemExit(1 if asyncio.run(prove(arguments.attempts, tools)) else 0)


if __name__ == "__main__":
    main()
