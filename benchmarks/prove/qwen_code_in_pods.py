"""qwen-code itself in pods of a real node: `python -m benchmarks.prove.qwen_code_in_pods` (Linux, root, npm).

As an installation has it: the program from its image (images/qwen-code), copied into each sandbox by an init container;
sandboxes that reach the gateway and nothing else; sessions opened and finished over the gateway's own ports. It must
solve a task by its own tools, what is recorded must be what the scripted engine sent, and nothing may fork.
"""

import argparse
import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from benchmarks.figures import print_figures
from benchmarks.operator_process import free_port, running_operator
from benchmarks.own_cluster import CHECKOUT, load_task_images, own_cluster
from benchmarks.pods import POOL, fresh_namespace
from benchmarks.prove.qwen_code_attempts import (
    TOOLS,
    VERSION,
    ScriptedModel,
    UntiringEngine,
    attempt,
    is_wrong,
    make_gateway,
    make_renderer,
)
from benchmarks.prove.report import Section, write_section
from benchmarks.scripted_attempts import make_task
from benchmarks.warm_pool import create_pool

from sweyard_cluster.image_builders import Build, choose_builder
from sweyard_cluster.images import image_tag
from sweyard_cluster.loading import name_in_cluster, push
from sweyard_cluster.testing import TestCluster
from sweyard_sandbox.pool.api import ApiClient
from sweyard_sandbox.pool.pool import Pool, find_credentials
from sweyard_sandbox.runtimes.kubernetes.runtime import KubernetesRuntime
from sweyard_sandbox.tasks.build import image_recipe
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.engine.engine import Engine
from sweyard_trainer.gateway.admin_app import admin_app
from sweyard_trainer.gateway.client import HttpGateway
from sweyard_trainer.gateway.gateway import Gateway
from sweyard_trainer.gateway.public_app import public_app
from sweyard_trainer.trajectory import Trajectory

NODE = "localhost/sweyard/node:dev"
QWEN_CODE = "localhost/sweyard/qwen-code:dev"
NODE_RECIPE = """\
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
COPY node /usr/local/bin/node
COPY npm /usr/local/lib/node_modules/npm
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
"""
RESOURCES = {
    "requests": {"cpu": "50m", "memory": "64Mi", "ephemeral-storage": "64Mi"},
    "limits": {"memory": "2Gi", "ephemeral-storage": "2Gi"},
}


def load_tools_image(cluster: TestCluster, folder: Path) -> str:
    """images/qwen-code, with this machine's Node.js where its own cannot be pulled: the name by which pods have it."""
    tool = cluster.tool
    builder = choose_builder(tool.cache, tool.progress)
    arguments = {}
    if not builder.has_registry:
        node, npm = (Path(str(shutil.which(name))).resolve() for name in ("node", "npm"))
        shutil.copy2(node, folder / "node")
        shutil.copytree(npm.parents[1], folder / "npm", symlinks=True)
        (folder / "Dockerfile").write_text(NODE_RECIPE)
        base = {"BASE_IMAGE": image_tag("base")}
        builder.build(Build(NODE, folder / "Dockerfile", folder, base), tool.progress)
        arguments = {"NODE_IMAGE": NODE, "COPYING_IMAGE": image_tag("base")}
    recipe = CHECKOUT / "images" / "qwen-code" / "Dockerfile"
    builder.build(Build(QWEN_CODE, recipe, recipe.parent, arguments), tool.progress)
    name = f"{tool.spec(cluster.name).addresses.registry}/{name_in_cluster(QWEN_CODE)}"
    return f"{name}@{push(builder.source(QWEN_CODE), name)}"


def load_task(cluster: TestCluster, folder: Path) -> Task:
    """The scripted task, in an image as `sweyard tasks make` writes them."""
    task = make_task(folder / "trees" / "till")
    recipe = folder / "images" / "till" / "Dockerfile"
    recipe.parent.mkdir(parents=True)
    recipe.write_text(image_recipe("till", uses_pytest=False))
    return task.model_copy(update={"image": load_task_images(cluster, folder)["till"]})


def template(tools_image: str) -> dict[str, Any]:
    """Of sandboxes with the program in a volume, as examples/recipes/qwen3-coder-30b-django.yaml has it."""
    volume = {"name": "tools", "mountPath": TOOLS}
    copying = {"name": "tools", "image": tools_image, "command": ["cp", "-a", "/tools/.", TOOLS]}
    overrides = {
        "volumes": [{"name": "tools", "emptyDir": {}}],
        "initContainers": [{**copying, "volumeMounts": [volume]}],
        "containers": [{"name": "sandbox", "volumeMounts": [{**volume, "readOnly": True}]}],
    }
    return {"resources": RESOURCES, "podOverrides": overrides}


@asynccontextmanager
async def serving(gateway: Gateway, engine: Engine, host: str) -> AsyncIterator[HttpGateway]:
    """Both ports of a gateway, and a client as rollout workers have it."""
    ports = [free_port(), free_port()]
    apps = [public_app(gateway), admin_app(gateway, lambda url: engine)]
    servers = [
        uvicorn.Server(uvicorn.Config(app, host=host, port=port, log_level="warning", access_log=False))
        for app, port in zip(apps, ports, strict=True)
    ]
    tasks = [asyncio.create_task(server.serve()) for server in servers]
    while not all(server.started for server in servers):
        await asyncio.sleep(0.05)
    public, admin = (f"http://{host}:{port}" for port in ports)
    try:
        yield HttpGateway(public, admin, ["http://scripted"], new_token=lambda: f"token-{ports[0]}")
    finally:
        for server in servers:
            server.should_exit = True
        await asyncio.gather(*tasks)


async def prove(api: ApiClient, task: Task, tools_image: str, host: str, attempts: int) -> int:
    """Number of attempts that are not as they must be."""
    renderer = make_renderer()
    models = [ScriptedModel(renderer) for _ in range(attempts)]

    async def one(number: int, runtime: KubernetesRuntime) -> Trajectory:
        engine = UntiringEngine(models[number], name="http://scripted")
        async with serving(make_gateway(renderer), engine, host) as gateway:
            return await attempt(task, runtime, gateway, TOOLS, number)

    async with fresh_namespace(api) as namespace:
        network = {"egressCidrs": [f"{host}/32"]}
        await create_pool(api, namespace, attempts + 1, 0, template=template(tools_image), network=network)
        runtime = KubernetesRuntime(await Pool.connect(namespace=namespace, name=POOL))
        try:
            await runtime.announce([task.image] * attempts)
            done = await asyncio.gather(*(one(number, runtime) for number in range(attempts)))
        finally:
            await runtime.close()
    return sum(map(is_wrong, done, models))


async def run(task: Task, tools_image: str, host: str, attempts: int) -> int:
    api = ApiClient(find_credentials(os.environ))
    try:
        return await prove(api, task, tools_image, host, attempts)
    finally:
        await api.close()


def main() -> None:
    """Build, run, write docs/performance.md; exit code 1 if anything is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attempts", type=int, default=3)
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("python -m benchmarks.prove.qwen_code_in_pods needs root: it makes a real node")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sweyard-qwen-code-") as directory, own_cluster(nodes=1) as cluster:
        folder = Path(directory)
        task = load_task(cluster, folder / "dataset")
        (folder / "node").mkdir()
        tools_image = load_tools_image(cluster, folder / "node")
        host = cluster.tool.spec(cluster.name).addresses.host
        os.environ["KUBECONFIG"] = str(cluster.kubeconfig)
        with running_operator(cluster.kubeconfig, folder / "operator.log"):
            wrong = asyncio.run(run(task, tools_image, host, arguments.attempts))
    if wrong:
        raise SystemExit(f"{wrong} of {arguments.attempts} attempts were not as they must be")
    lines = [
        f"{arguments.attempts} attempts at once by qwen-code {VERSION} as npm has it, in sandboxes of a real node that "
        "reach the gateway and nothing else, with the program in a volume that an init container fills: all solved by "
        "its own tools, in streamed replies; the recorded ids are those that the engine sent, in one sequence each."
    ]
    write_section(Section("qwen-code in pods", "python -m benchmarks.prove qwen-code-in-pods", lines))
    figures = {"attempts": arguments.attempts, "seconds": round(time.monotonic() - began)}
    print_figures({"benchmark": "prove.qwen_code_in_pods", **figures})


if __name__ == "__main__":
    main()
