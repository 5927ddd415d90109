"""The agent's loop: read the assignment, look at the node, report, then evict and pull.

A report goes out before what it tells of begins: an agent that is killed in mid-pull knows after its restart that an
image which turns up was its own doing.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from sweyard_operator.cache_agent.auth import PullSecrets
from sweyard_operator.cache_agent.cri import ImageRuntime, PullError
from sweyard_operator.cache_agent.disk import (
    NO_NEEDS,
    SETTLE_SECONDS,
    Reservation,
    disk_ratio,
    expect_freed,
    expect_freed_at_most,
    expect_needs,
)
from sweyard_operator.cache_agent.held import is_held
from sweyard_operator.cache_agent.image_names import normalize, registry_host
from sweyard_operator.cache_agent.ownership import Ownership
from sweyard_operator.cache_agent.plan import NodePlan, NodeState, on_demand, plan_node
from sweyard_operator.cache_agent.protocol import Assignment, ImageState, NodeReport, PullFailure
from sweyard_operator.cache_agent.pull_reasons import explain
from sweyard_operator.cache_agent.reporting import Failure, make_report
from sweyard_operator.cache_agent.survey import Survey

log = logging.getLogger(__name__)

PULL_TIMEOUT_SECONDS = 1_800.0
FIRST_RETRY_SECONDS = 5.0
LAST_RETRY_SECONDS = 300.0
HOPELESS_FAILURES = 3
"""After so many in a row nothing that is wanted is evicted for an image, for a while."""
HOPELESS_SECONDS = 3_600.0
REWRITE_SECONDS = 120.0
"""Whoever deleted our report gets it back; to the API server a report that is there already is no write."""


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
class CacheAgent:
    """State of one node's agent between passes."""

    node: str
    runtime: ImageRuntime
    mailbox: Mailbox
    secrets: PullSecrets
    ownership: Ownership
    survey: Survey
    clock: Callable[[], float]
    _pulls: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _failures: dict[str, Failure] = field(default_factory=dict)
    _reservations: dict[str, Reservation] = field(default_factory=dict)
    _pulled: list[str] = field(default_factory=list)
    _last_used: dict[str, float] = field(default_factory=dict)
    _in_vain: dict[str, int] = field(default_factory=dict)
    _settled_at: float = float("-inf")
    _reported: NodeReport | None = None
    _reported_at: float = 0.0
    _restored: bool = False

    async def run_pass(self) -> NodeReport | None:
        """One look at the node and what follows from it; returns the report if there is an assignment."""
        await self._restore()
        assignment = await self.mailbox.read_assignment()
        if assignment is None:
            # The node takes no part now; our report may be gone once it does again.
            self._reported = None
            return None
        self._collect_finished()
        self.survey.advance(assignment.images, known=self._pulled)
        state = await self._observe(assignment)
        plan = plan_node(assignment, state, self.clock())
        self._in_vain |= {image: max(room, self._in_vain.get(image, 0)) for image, room in plan.in_vain.items()}
        report = self._report(assignment, state, plan)
        if report != self._reported or self.clock() - self._reported_at >= REWRITE_SECONDS:
            await self.mailbox.write_report(report)
            self._reported, self._reported_at = report, self.clock()
        for image in plan.evictions:
            await self._evict(image)
        for image in plan.pulls:
            self._reservations[image] = Reservation(state.needs.by_image.get(image, 0), until=None)
            self._pulls[image] = asyncio.create_task(self._pull(image))
        return report

    @property
    def is_idle(self) -> bool:
        """The last report says that there is nothing to do but, later, to try again what failed."""
        said = self._reported
        settled = (ImageState.CACHED, ImageState.FAILED)
        return said is not None and all(one.state in settled for one in said.images.values())

    async def close(self) -> None:
        """Stop pulling; a pull that was cut off starts again from the layers the runtime kept."""
        for task in self._pulls.values():
            task.cancel()
        await asyncio.gather(*self._pulls.values(), return_exceptions=True)
        await self.survey.close()

    async def _restore(self) -> None:
        if self._restored:
            return
        if (last := await self.mailbox.read_report()) is not None:
            # One whose pull had begun is ours too, if it is here now.
            ours = (image for image, said in last.images.items() if said.own or said.state is ImageState.PULLING)
            self._pulled = [*last.pulled, *ours]
        self._restored = True

    async def _observe(self, assignment: Assignment) -> NodeState:
        held = await self.runtime.held_images()
        in_use = await self.runtime.images_in_use()
        used_bytes = await self.runtime.used_bytes()
        now = self.clock()
        await self._take_over(assignment)
        self._pulled = [image for image in self._pulled if is_held(image, held)]
        self._in_vain = {image: room for image, room in self._in_vain.items() if image in assignment.images}
        self._last_used = {image: at for image, at in self._last_used.items() if image in held}
        self._last_used |= {name: now for name in map(normalize, in_use) if name in held}
        self._reservations = {
            image: one for image, one in self._reservations.items() if one.until is None or one.until > now
        }
        there = {image for image in assignment.images if is_held(image, held)} | self._pulls.keys()
        missing = [image for image in assignment.images if image not in there]
        ratio = disk_ratio(used_bytes, sum({one.digest: one.num_bytes for one in held.values()}.values()))
        budget, manifests = assignment.disk_budget_bytes, self.survey.manifests
        may_go = {*self._pulled, *held}
        return NodeState(
            held=held,
            in_use=in_use,
            used_bytes=used_bytes,
            pulled=tuple(self._pulled),
            pulling=frozenset(self._pulls),
            not_before={image: failure.not_before for image, failure in self._failures.items()},
            last_used=dict(self._last_used),
            needs=NO_NEEDS if budget is None else expect_needs(missing, manifests, there, budget, ratio),
            frees={} if budget is None else expect_freed(may_go, manifests, held),
            frees_at_most={} if budget is None else expect_freed_at_most(may_go, manifests, held, ratio),
            in_vain=dict(self._in_vain),
            hopeless=frozenset(image for image, one in self._failures.items() if _is_hopeless(one, now)),
            reserved_bytes=sum(one.num_bytes for one in self._reservations.values()),
            unasked=frozenset(
                image for image in missing if self.survey.is_paused(image) or not self.survey.is_answered(image)
            ),
            silent=frozenset(host for host in map(registry_host, missing) if self.survey.is_silent(host)),
            is_settled=now >= self._settled_at,
        )

    async def _take_over(self, assignment: Assignment) -> None:
        """What is marked as ours, and what caches left that are gone."""
        marks = dict(await self.runtime.marks())
        living = await self.runtime.caches_here() if self.ownership.others(marks) else frozenset()
        heirless = self.ownership.find_heirless(marks, living)
        for image in heirless:
            log.info("%s was pulled for %s, which has no agent here any more", image, marks[image])
            await self.runtime.mark(image, self.ownership.keeper)
        keepers = marks | dict.fromkeys(heirless, self.ownership.keeper)
        own = [image for image, keeper in keepers.items() if keeper == self.ownership.keeper]
        spelt = {normalize(image): image for image in (*assignment.images, *self._pulled)}
        known = [image for image in self._pulled if keepers.get(normalize(image)) in (None, self.ownership.keeper)]
        self._pulled = list(dict.fromkeys([*known, *(spelt.get(image, image) for image in own)]))

    async def _pull(self, image: str) -> None:
        await self.runtime.pull(image, self.secrets.find(image), timeout_seconds=PULL_TIMEOUT_SECONDS)
        await self.runtime.mark(image, self.ownership.keeper)

    def _collect_finished(self) -> None:
        for image in [image for image, task in self._pulls.items() if task.done()]:
            error = self._pulls.pop(image).exception()
            # What a failed pull brought so far stays on the disk for a while, too.
            held_back = self._reservations.pop(image)
            self._reservations[image] = Reservation(held_back.num_bytes, self.clock() + SETTLE_SECONDS)
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
        lacking = self.secrets.explain(image) if error.reason is PullFailure.UNAUTHORIZED else ""
        told = explain(image, error.reason, str(error), remedy=lacking)
        self._failures[image] = Failure(error.reason, told, count, self.clock() + wait)
        if error.reason in (PullFailure.RATE_LIMITED, PullFailure.TIMEOUT):
            # The runtime does not pass on for how long; until we have asked ourselves, none of its images is tried.
            self.survey.pause(image, wait, error.reason, told)

    async def _evict(self, image: str) -> None:
        log.info("evicting %s: the disk budget has no room for what is needed sooner", image)
        await self.runtime.remove(image)
        self._pulled = [pulled for pulled in self._pulled if pulled != image]
        self._settled_at = self.clock() + SETTLE_SECONDS

    def _report(self, assignment: Assignment, state: NodeState, plan: NodePlan) -> NodeReport:
        brought = [image for image in on_demand(assignment, state.held) if image not in plan.evictions]
        return make_report(
            self.node,
            assignment,
            state,
            images=(*assignment.images, *brought),
            pulling=frozenset(self._pulls).union(plan.pulls),
            failures=self._failures,
            troubles={image: trouble for image in assignment.images if (trouble := self.survey.trouble(image))},
            no_room=plan.no_room,
            manifests=self.survey.manifests,
        )


def _is_hopeless(failure: Failure, now: float) -> bool:
    return failure.count >= HOPELESS_FAILURES and now < failure.not_before + HOPELESS_SECONDS
