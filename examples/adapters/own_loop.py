"""A training loop of your own (TRL, verl, SkyRL or none of them) on our sandboxes: attempts and their rewards.

    python examples/adapters/own_loop.py --dataset tiny                      # on this machine
    python examples/adapters/own_loop.py --dataset mine --pool shared        # in pods of a RolloutPool

Put your model in the place of `reply`. It is called with the whole conversation, as chat templates take it.
"""

import argparse
import asyncio
import os
import re
from collections.abc import Awaitable, Callable

from sweyard_api.cache_root import dataset_directories
from sweyard_api.workload import TaskSource
from sweyard_sandbox.adapters.environment import TaskEnvironment
from sweyard_sandbox.errors import InfrastructureError
from sweyard_sandbox.pool.pool import Pool
from sweyard_sandbox.runtime import Runtime
from sweyard_sandbox.runtimes.kubernetes.runtime import KubernetesRuntime
from sweyard_sandbox.runtimes.local.runtime import LocalRuntime
from sweyard_sandbox.tasks.load import load_tasks
from sweyard_sandbox.tasks.task import Task

Messages = list[dict[str, str]]
Reply = Callable[[Messages], Awaitable[str]]
COMMAND = re.compile(r"```bash\n(.*?)\n```", re.DOTALL)


async def reply(messages: Messages) -> str:
    """Your model. This one looks around and gives up."""
    return "```bash\nls\n```" if len(messages) == 1 else "I cannot do it."


async def attempt(task: Task, runtime: Runtime, reply: Reply, max_turns: int = 20) -> tuple[Messages, float | None]:
    """The conversation and its reward; None where the sandbox failed, and nothing can be learned from the attempt."""
    messages: Messages = []
    try:
        async with TaskEnvironment(task, runtime) as environment:
            messages.append({"role": "user", "content": environment.prompt})
            for _ in range(max_turns):
                messages.append({"role": "assistant", "content": await reply(messages)})
                command = COMMAND.search(messages[-1]["content"])
                if command is None:
                    break
                messages.append({"role": "user", "content": await environment.run(command[1])})
            return messages, float((await environment.grade()).strict)
    except InfrastructureError as error:
        print(f"{task.id}: left out: {error}")
        return messages, None


async def main() -> None:
    """Some attempts at once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="tiny")
    parser.add_argument("--pool", help="a RolloutPool; default: this machine")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--attempts", type=int, default=4)
    arguments = parser.parse_args()
    tasks = load_tasks(TaskSource(dataset=arguments.dataset), dataset_directories(os.environ))[: arguments.attempts]
    runtime: Runtime = LocalRuntime()
    if arguments.pool:
        runtime = KubernetesRuntime(await Pool.connect(namespace=arguments.namespace, name=arguments.pool))
    try:
        await runtime.announce([task.image for task in tasks])
        for task, (messages, reward) in zip(
            tasks, await asyncio.gather(*(attempt(task, runtime, reply) for task in tasks)), strict=True
        ):
            print(f"{task.id}: {len(messages)} messages, reward {reward}")
    finally:
        await runtime.close()


if __name__ == "__main__":
    asyncio.run(main())
