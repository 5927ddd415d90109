"""SWE-ReX on our sandboxes; SWE-agent's SWEEnv takes the same deployment in the place of its own.

pip install swe-rex
python examples/adapters/swe_rex.py --pool shared --image python:3.12     # in a pod of a RolloutPool
python examples/adapters/swe_rex.py --image dir:.                         # on this machine
"""

import argparse
import asyncio
from pathlib import Path

from swerex.exceptions import CommandTimeoutError
from swerex.runtime.abstract import BashAction, Command, CreateBashSessionRequest

from sweyard_sandbox.adapters.swe_rex import RexDeployment
from sweyard_sandbox.pool.pool import Pool
from sweyard_sandbox.runtime import Runtime
from sweyard_sandbox.runtimes.kubernetes.runtime import KubernetesRuntime
from sweyard_sandbox.runtimes.local.runtime import LocalConfig, LocalRuntime


async def main() -> None:
    """A session, and a command outside of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", help="a RolloutPool; default: this machine")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--image", required=True)
    arguments = parser.parse_args()
    runtime: Runtime = LocalRuntime(LocalConfig(image_root=Path.cwd()))
    if arguments.pool:
        runtime = KubernetesRuntime(await Pool.connect(namespace=arguments.namespace, name=arguments.pool))
    deployment = RexDeployment(runtime, arguments.image, CommandTimeoutError)
    await deployment.start()
    try:
        await deployment.runtime.create_session(CreateBashSessionRequest())
        await deployment.runtime.run_in_session(BashAction(command="cd / && export NAME=world"))
        observation = await deployment.runtime.run_in_session(BashAction(command="pwd; echo hello $NAME"))
        print(observation.output, observation.exit_code)
        print((await deployment.runtime.execute(Command(command=["echo", "once"]))).stdout)
    finally:
        await deployment.stop()
        await runtime.close()


if __name__ == "__main__":
    asyncio.run(main())
