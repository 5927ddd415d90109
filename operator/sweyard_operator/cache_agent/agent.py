"""The agent's loop: read the assignment, look at the node, pull and evict, report what changed."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sweyard_operator.cache_agent.cri import ImageRuntime, PullError, RegistryAuth
from sweyard_operator.cache_agent.image_names import normalize, registry_host
from sweyard_operator.cache_agent.plan import NodePlan, NodeState, is_held, listed_bytes, on_demand, plan_node
from sweyard_operator.cache_agent.protocol import Assignment, ImageReport, ImageState, NodeReport, PullFailure

log = logging.getLogger(__name__)

PULL_TIMEOUT_SECONDS = 1_800.0
FIRST_RETRY_SECONDS = 5.0
LAST_RETRY_SECONDS = 300.0


class Mailbox(Protocol):
    """The two ConfigMaps of this node."""

    async def read_assignment(self) -> Assignment | None:
        """What the operator wants; None before it said anything."""
        ...

    async def read_report(self) -> NodeReport | None:
        """Our own last report, for what must survive a restart."""
        ...

    async def write_report(self, report: NodeReport) -> None:
        """Replace our report."""
        ...


@dataclass(slots=True)
class _Failure:
    reason: PullFailure
    message: str
    count: int
    not_before: float


@dataclass(slots=True)
class CacheAgent:
    """State of one node's agent between passes."""

    node: str
    runtime: ImageRuntime
    mailbox: Mailbox
    auths: Mapping[str, RegistryAuth]
    clock: Callable[[], float]
    _pulls: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _failures: dict[str, _Failure] = field(default_factory=dict)
    _pulled: list[str] = field(default_factory=list)
    _last_used: dict[str, float] = field(default_factory=dict)
    _reported: NodeReport | None = None
    _restored: bool = False

    async def run_pass(self) -> NodeReport | None:
        """One look at the node and what follows from it; returns the report if there is an assignment."""
        await self._restore()
        assignment = await self.mailbox.read_assignment()
        if assignment is None:
            return None
        self._collect_finished()
        state = await self._observe()
        plan = plan_node(assignment, state, self.clock())
        for image in plan.evictions:
            await self._evict(image)
        for image in plan.pulls:
            self._pulls[image] = asyncio.create_task(self._pull(image))
        report = self._report(assignment, state, plan)
        if report != self._reported:
            await self.mailbox.write_report(report)
            self._reported = report
        return report

    async def close(self) -> None:
        """Stop pulling; a pull that was cut off starts again from the layers the runtime kept."""
        for task in self._pulls.values():
            task.cancel()
        await asyncio.gather(*self._pulls.values(), return_exceptions=True)

    async def _restore(self) -> None:
        if self._restored:
            return
        last = await self.mailbox.read_report()
        self._pulled = list(last.pulled) if last is not None else []
        self._restored = True

    async def _observe(self) -> NodeState:
        held = await self.runtime.held_images()
        in_use = await self.runtime.images_in_use()
        self._pulled = [image for image in self._pulled if is_held(image, held)]
        self._last_used = {image: at for image, at in self._last_used.items() if image in held}
        self._last_used |= {name: self.clock() for name in map(normalize, in_use) if name in held}
        return NodeState(
            held=held,
            in_use=in_use,
            used_bytes=await self.runtime.used_bytes(),
            pulled=tuple(self._pulled),
            pulling=frozenset(self._pulls),
            not_before={image: failure.not_before for image, failure in self._failures.items()},
            last_used=dict(self._last_used),
        )

    async def _pull(self, image: str) -> None:
        auth = self.auths.get(registry_host(image))
        await self.runtime.pull(image, auth, timeout_seconds=PULL_TIMEOUT_SECONDS)

    def _collect_finished(self) -> None:
        for image in [image for image, task in self._pulls.items() if task.done()]:
            error = self._pulls.pop(image).exception()
            if error is None:
                self._failures.pop(image, None)
                self._pulled.append(image)
            elif isinstance(error, PullError):
                self._remember_failure(image, error)
            else:
                raise error

    def _remember_failure(self, image: str, error: PullError) -> None:
        count = self._failures[image].count + 1 if image in self._failures else 1
        wait = min(LAST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** (count - 1))
        log.warning("pull of %s failed (%s), again in %.0f s: %s", image, error.reason, wait, error)
        self._failures[image] = _Failure(error.reason, str(error), count, self.clock() + wait)

    async def _evict(self, image: str) -> None:
        log.info("evicting %s: over the disk budget and no longer wanted", image)
        await self.runtime.remove(image)
        self._pulled = [pulled for pulled in self._pulled if pulled != image]

    def _report(self, assignment: Assignment, state: NodeState, plan: NodePlan) -> NodeReport:
        brought = [image for image in on_demand(assignment, state.held) if image not in plan.evictions]
        images = {image: self._image_report(image, state, plan) for image in (*assignment.images, *brought)}
        return NodeReport(
            node=self.node, images=images, used_bytes=_round_bytes(state.used_bytes), pulled=tuple(self._pulled)
        )

    def _image_report(self, image: str, state: NodeState, plan: NodePlan) -> ImageReport:
        if (num_bytes := listed_bytes(image, state.held)) is not None:
            return ImageReport(state=ImageState.CACHED, num_bytes=num_bytes or None)
        if image in self._pulls:
            return ImageReport(state=ImageState.PULLING)
        if image in self._failures:
            failure = self._failures[image]
            return ImageReport(state=ImageState.FAILED, reason=failure.reason, message=failure.message)
        if plan.over_budget:
            message = "the node's disk budget is used up; raise diskBudget or name fewer images"
            return ImageReport(state=ImageState.FAILED, reason=PullFailure.DISK_BUDGET, message=message)
        return ImageReport(state=ImageState.WAITING)


def _round_bytes(used: int) -> int:
    """To 16 MiB, so that the containers' own noise does not cause a write a pass."""
    return used >> 24 << 24
