"""`make prove`: what takes longer than tests may. Results are dated and written into docs/performance.md.

`python -m benchmarks.prove [learning] [kills] [pods]`, by default all three. The last two need Linux and root.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.prove.report import Section, write_section
from rich.console import Console

from sweyard_cli.demo.cluster_commands import Commands, host_commands, timed
from sweyard_cli.demo.cluster_install import chart_values, install_chart
from sweyard_cli.demo.cluster_targets import Native

CLUSTER = "prove"


def prove_learning() -> None:
    """Three seeds and their controls, without a cluster."""
    subprocess.run([sys.executable, "-m", "benchmarks.prove.learning"], check=True)


def prove_kills() -> None:
    """Whole runs on a real cluster, with vLLM, through kill -9 of operator and trainer."""
    began = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-p", "tests.strict_skips", "-v", "-m", "kubelet", "tests/e2e"]
    subprocess.run(command, check=True)
    lines = [
        "Runs on a real node whose operator and whose trainer got kill -9 in the middle ended Succeeded with all their "
        "steps and one restart, once with the engine in the trainer and once with vLLM, and their deletion left "
        f"nothing. All of it took {time.monotonic() - began:.0f} s."
    ]
    write_section(Section("Kills", "python -m benchmarks.prove kills", lines))


def prove_pods() -> None:
    """512 sandboxes of one pool on one node."""
    checkout = Path().resolve()
    commands, target = host_commands(Console()), Native(CLUSTER)
    target.check()
    try:
        commands = target.start(commands)
        image = install(commands, target, checkout)
        command = [sys.executable, "-m", "benchmarks.prove.pods", "--image", image]
        subprocess.run(command, check=True, env=dict(commands.environment))
    finally:
        commands.cluster_tool("down", "--name", CLUSTER)


def install(commands: Commands, target: Native, checkout: Path) -> str:
    """The chart, with images built from this checkout; the image that sandboxes are made of."""
    names = {"operator": "operator", "cacheAgent": "cache-agent", "trainer": "base"}
    with timed(commands.console, "operator"):
        commands.cluster_tool("images", "build", *names.values(), "--checkout", str(checkout))
        brought = target.bring(commands, [f"localhost/sweyard/{name}:dev" for name in names.values()])
        images = dict(zip(names, brought, strict=True))
        install_chart(commands, checkout / "charts" / "sweyard", chart_values(images, checkout))
    return images["trainer"]


PROOFS: dict[str, Callable[[], None]] = {"learning": prove_learning, "kills": prove_kills, "pods": prove_pods}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prove", description=__doc__)
    parser.add_argument("proofs", nargs="*", metavar="PROOF", help=", ".join(PROOFS))
    arguments = parser.parse_args()
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    if unknown := set(arguments.proofs) - PROOFS.keys():
        parser.error(f"PROOF {sorted(unknown)[0]!r} is not one of " + ", ".join(PROOFS))
    for name in arguments.proofs or PROOFS:
        print(f"== {name}", flush=True)
        PROOFS[name]()


if __name__ == "__main__":
    main()
