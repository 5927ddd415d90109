"""Container runtime and mailbox of one node in memory, and passes of the real agent over it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sweyard_operator.cache_agent.agent import CacheAgent
from sweyard_operator.cache_agent.auth import PullSecrets
from sweyard_operator.cache_agent.cri import HeldImage, PullError
from sweyard_operator.cache_agent.image_names import normalize
from sweyard_operator.cache_agent.ownership import Ownership
from sweyard_operator.cache_agent.protocol import Assignment, NodeReport, PullFailure
from sweyard_operator.cache_agent.registry import Manifest, RegistryError
from sweyard_operator.cache_agent.registry_auth import RegistryAuth
from sweyard_operator.cache_agent.survey import Survey


@dataclass
class FakeNode:
    """Container runtime and mailbox of one node."""

    assignment: Assignment | None = None
    held: set[str] = field(default_factory=set)
    in_use: set[str] = field(default_factory=set)
    used: int = 0
    errors: dict[str, PullError] = field(default_factory=dict)
    pulls: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    report: NodeReport | None = None
    num_writes: int = 0
    now: float = 0.0
    sizes: dict[str, int] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    """By name; each its own unless said."""
    manifests: dict[str, Manifest | RegistryError] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    slow: set[str] = field(default_factory=set)
    secrets: Path = Path("/nowhere")
    marked: dict[str, str] = field(default_factory=dict)
    neighbours: set[str] = field(default_factory=set)
    """Other caches that have an agent here."""
    on_pull: Callable[[], None] = lambda: None

    async def held_images(self) -> dict[str, HeldImage]:
        return {
            name: HeldImage(
                self.sizes.get(name, 10), self.digests.get(name, f"sha256:{name}"), self.ids.get(name, name)
            )
            for name in self.held
        }

    async def resolve(self, image: str) -> Manifest:
        self.asked.append(image)
        said = self.manifests.get(image, RegistryError(PullFailure.REGISTRY_UNREACHABLE, "no route"))
        if isinstance(said, RegistryError):
            raise said
        return said

    async def images_in_use(self) -> frozenset[str]:
        return frozenset(self.in_use)

    async def marks(self) -> dict[str, str]:
        return {image: keeper for image, keeper in self.marked.items() if image in self.held}

    async def mark(self, image: str, keeper: str) -> None:
        self.marked[normalize(image)] = keeper

    async def caches_here(self) -> frozenset[str]:
        return frozenset({"team/c", *self.neighbours})

    async def used_bytes(self) -> int:
        return self.used

    async def pull(self, image: str, auth: RegistryAuth | None, *, timeout_seconds: float) -> None:
        self.pulls.append(image)
        self.on_pull()
        if image in self.slow:
            await asyncio.Event().wait()
        if image in self.errors:
            raise self.errors[image]
        self.held.add(normalize(image))

    async def remove(self, image: str) -> None:
        self.removed.append(image)
        gone = self.ids.get(normalize(image), normalize(image))
        self.held = {name for name in self.held if self.ids.get(name, name) != gone}

    async def read_assignment(self) -> Assignment | None:
        return self.assignment

    async def read_report(self) -> NodeReport | None:
        return self.report

    async def write_report(self, report: NodeReport) -> None:
        self.report = report
        self.num_writes += 1

    def agent(self, keeper: str = "team/c") -> CacheAgent:
        return CacheAgent(
            node="n1",
            runtime=self,
            mailbox=self,
            secrets=PullSecrets(self.secrets),
            ownership=Ownership(keeper, lambda: self.now),
            survey=Survey(self, lambda: self.now),
            clock=lambda: self.now,
        )


async def passes(agent: CacheAgent, count: int) -> NodeReport:
    for _ in range(count):
        said = await agent.run_pass()
        for _ in range(3):
            await asyncio.sleep(0)
    assert said is not None
    return said


def manifest(digest: str, **layers: int) -> Manifest:
    return Manifest(f"sha256:{digest}", layers)
