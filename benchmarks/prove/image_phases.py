"""What the proof of images does to an ImageCache's nodes and to their registry, one thing after the other."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.prove.image_nodes import ImageNodes
from benchmarks.prove.layered_images import MIB, Pushed
from benchmarks.prove.lying_registry import Door, Faults

from sweyard_cluster import faults, lifecycle
from sweyard_cluster.spec import ClusterRequest

IMAGES, FAMILIES, COPIES, HELD, BARE = 60, 6, 2, 12, 2
CORRUPT, MISSING = 7, 8
"""Of the first images, by number."""
ROOM_BYTES = 260 * MIB
_REFUSED_SECONDS = 8.0
_DEADLINE_SECONDS = 400.0
_POLL_SECONDS = 1.0
_SETTLE_SECONDS = 15.0
"""containerd looks at its snapshots each ten seconds, an agent that is idle at all it holds, and kubelets start ended
containers again after ten."""
_STABLE_SECONDS = 40.0
"""Longer than an agent waits between what it evicts and what it pulls in its place."""
_NUM_COLLECTED = 5


@dataclass(frozen=True, slots=True)
class Stage:
    """The cache on its nodes behind the registry's door."""

    nodes: ImageNodes
    door: Door

    def names(self, pushed: Iterable[Pushed]) -> list[str]:
        """As the nodes pull them."""
        return [f"{self.door.address}/{one.name}" for one in pushed]

    async def hold(self, pushed: Sequence[Pushed]) -> dict[str, Any]:
        """By unprivileged pods, without an agent: those without a shell, too, and nothing is started again."""
        nodes, images = self.nodes, self.names(pushed)
        holding = ImageNodes(nodes.cluster, nodes.api, nodes.namespace, name="held")
        await holding.make(images=images, copies=COPIES, mode="pods")
        seconds = await holding.until("held by pods", _DEADLINE_SECONDS, cached=len(images), failed=0, nodes=2)
        await asyncio.sleep(_SETTLE_SECONDS)
        count, restarts = await self._count(pushed), await holding.restarts()
        await holding.delete()
        return {"held_s": round(seconds, 1), "nodes_by_held_image": count, "holder_restarts": restarts}

    async def fill(self, pushed: Sequence[Pushed]) -> dict[str, Any]:
        """All at once: a lying registry, an agent that is killed in mid-pull, and a node that joins."""
        faults = Faults(
            refuse_for_seconds=_REFUSED_SECONDS,
            fail_every=4,
            slow_seconds=0.02,
            corrupt=frozenset({pushed[CORRUPT].own_layer}),
            missing=frozenset({"/manifests/" + pushed[MISSING].name.rpartition(":")[2]}),
        )
        self.door.lie(faults)
        nodes, images = self.nodes, self.names(pushed)
        budget = max((await nodes.used_bytes()).values()) + ROOM_BYTES
        await nodes.edit(images=images, diskBudget=str(budget))
        await nodes.until_pulling("node1", _DEADLINE_SECONDS)
        killed = await nodes.kill_agent("node1")
        await asyncio.to_thread(lifecycle.up, nodes.cluster.tool, nodes.cluster.name, ClusterRequest(nodes=3))
        nodes.trust(self.door.address)
        seconds = await self._until_cached("filled", num_nodes=3)
        failures = (await nodes.status())["failures"]
        reasons = {entry["image"].rpartition("/")[2]: entry["reason"] for entry in failures}
        return {
            "fill_s": round(seconds, 1),
            "agents_killed": killed,
            "nodes_by_image": await self._count(pushed),
            "reasons": dict(sorted(reasons.items())),
            "door": dict(self.door.seen),
        }

    async def lose_node(self, pushed: Sequence[Pushed]) -> dict[str, Any]:
        """Its power goes: its copies go to the others."""
        before = self.door.seen["bytes"]
        await self._fail("node3", faults.POWER)
        seconds = await self._until_cached("node lost", num_nodes=2)
        return {
            "lost_s": round(seconds, 1),
            "nodes_by_image_after_loss": await self._count(pushed),
            "pulled_mib": round((self.door.seen["bytes"] - before) / MIB),
        }

    async def heal_node(self) -> dict[str, Any]:
        """It comes back with the disk that it had; then it is cut off, loses images unheard, and comes back again."""
        await self._heal("node3")
        first = await self._until_cached("node healed", num_nodes=3)
        false_claims = len(await self._false_claims())
        await self._fail("node3", faults.NETWORK)
        await self._until_cached("node cut off", num_nodes=2)
        lost = await self._collect("node3")
        await self._heal("node3")
        second = await self._until_cached("node heard again", num_nodes=3)
        return {
            "healed_s": round(first, 1),
            "heard_again_s": round(second, 1),
            "collected": lost,
            "false_claims": false_claims + len(await self._false_claims()),
        }

    async def turn_over(
        self, old: Sequence[Pushed], new: Sequence[Pushed], foreign: Sequence[Pushed]
    ) -> dict[str, Any]:
        """Other images are wanted; what no agent pulled stays."""
        self.door.lie(Faults())
        nodes, before = self.nodes, await self._count(foreign)
        await nodes.edit(images=self.names(new))
        seconds = await nodes.until("turned over", _DEADLINE_SECONDS, cached=IMAGES, failed=0, nodes=3)
        return {
            "turn_over_s": round(seconds, 1),
            "old_copies_left": sum(count * number for count, number in (await nodes.copies(self.names(old))).items()),
            "foreign_kept": await self._count(foreign) == before,
        }

    async def put_first(self, first: Sequence[Pushed], before: Sequence[Pushed]) -> dict[str, Any]:
        """More than fits, on two nodes: what is needed first takes the place of what is needed last."""
        nodes = self.nodes
        await self._fail("node3", faults.POWER)
        await nodes.until("two nodes", _DEADLINE_SECONDS, nodes=2)
        order = self.names([*first, *before])
        await nodes.edit(images=order)
        async with asyncio.timeout(_DEADLINE_SECONDS):
            while (await nodes.copies(self.names(first)))[COPIES] < len(first):
                await asyncio.sleep(_POLL_SECONDS)
            while (held := await self._held()) != await self._held_later():
                pass
        ranks = {node: [rank for rank, image in enumerate(order) if image in there] for node, there in held.items()}
        return {
            "kept_of_later": {node: len(found) - len(first) for node, found in ranks.items()},
            "out_of_order": sum(found != list(range(len(found))) for found in ranks.values()),
        }

    async def _held(self) -> dict[str, set[str]]:
        """By node, in its runtime's words."""
        return {node.name: set(await self.nodes.runtime(node).held_images()) for node in self.nodes.nodes}

    async def _held_later(self) -> dict[str, set[str]]:
        await asyncio.sleep(_STABLE_SECONDS)
        return await self._held()

    async def _count(self, pushed: Sequence[Pushed]) -> dict[int, int]:
        return dict(sorted((await self.nodes.copies(self.names(pushed))).items()))

    async def _until_cached(self, what: str, *, num_nodes: int) -> float:
        """All of the first images but the corrupt and the missing one."""
        return await self.nodes.until(what, _DEADLINE_SECONDS, cached=IMAGES - 2, failed=2, nodes=num_nodes)

    async def _collect(self, node: str) -> int:
        """Remove some of what its report said that it holds, as the kubelet's collector would."""
        runtime = self.nodes.runtime(next(one for one in self.nodes.nodes if one.name == node))
        held = sorted(image for image in await runtime.held_images() if image.startswith(self.door.address))
        tagged = [image for image in held if "@" not in image]
        for image in tagged[:_NUM_COLLECTED]:
            await runtime.remove(image)
        return len(tagged[:_NUM_COLLECTED])

    async def _false_claims(self) -> list[tuple[str, str]]:
        """Nodes and images that they say they hold, and do not, once they had the time to look."""
        await asyncio.sleep(_SETTLE_SECONDS)
        claims = await self.nodes.claims()
        held = await self._held()
        return [(node, image) for node, there in held.items() for image in claims[node] if image not in there]

    async def _fail(self, node: str, fault: str) -> None:
        tool = self.nodes.cluster.tool
        await asyncio.to_thread(faults.fail_node, tool, tool.spec(self.nodes.cluster.name), node, fault)

    async def _heal(self, node: str) -> None:
        tool = self.nodes.cluster.tool
        await asyncio.to_thread(faults.heal_node, tool, tool.spec(self.nodes.cluster.name), node)
