"""From a Plan to API calls, and from their answers to an Outcome."""

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

from sweyard_operator.caches import Caches
from sweyard_operator.cluster import Cluster
from sweyard_operator.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from sweyard_operator.events import post_event
from sweyard_operator.plan.plan import Deletion, Outcome, Patch, Plan, Refusal, RefusalReason
from sweyard_operator.resources import (
    APPLIED_LATER,
    Manifest,
    Resource,
    edition_of,
    name_of,
    namespace_of,
    resource_of,
)

logger = logging.getLogger(__name__)

_MAX_PARALLEL_CALLS = 32
_FEW = 256
"""Remembered writes that are not worth looking through."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Executor:
    """Remembers what its last write of each object that is applied left, while there is one, and nothing else."""

    def __init__(self, cluster: Cluster, caches: Caches) -> None:
        self._cluster = cluster
        self._caches = caches
        self._written: dict[tuple[Resource, str | None, str], tuple[str, str]] = {}
        self._forget_at = _FEW

    @property
    def num_remembered(self) -> int:
        """Objects whose last write is known."""
        return len(self._written)

    async def execute(self, plan: Plan, owner: Manifest) -> Outcome:
        """Do what `plan` says for `owner`.

        Raises ApiError and UnreachableError for what is neither a lost race nor a refusal.
        """
        deleted = await _in_parallel(self._delete, plan.delete)
        patched = await _in_parallel(self._patch, plan.patch)
        applied = [answer for alike in _by_kind(plan.apply) for answer in await _in_parallel(self._apply, alike)]
        # Children may rely on what was to be applied (a NetworkPolicy comes before its pods).
        create = partial(self._create, is_strict=plan.create_strictly)
        created = [] if any(applied) else await _in_parallel(create, plan.create)
        for event in plan.events:
            await post_event(self._cluster, owner, event)
        if plan.status is not None:
            await self.write_status(owner, plan.status)
        return Outcome(
            created=tuple(answer for answer in created if isinstance(answer, dict)),
            existed=tuple(answer for answer in created if isinstance(answer, str)),
            deleted=_accepted(plan.delete, deleted),
            patched=_accepted(plan.patch, patched),
            kept=tuple(deletion for deletion, answer in zip(plan.delete, deleted, strict=True) if answer is not True),
            refused=tuple(one for one in (*deleted, *patched, *applied, *created) if isinstance(one, Refusal)),
        )

    async def delete_all(self, deletions: tuple[Deletion, ...]) -> tuple[Deletion, ...]:
        """Those that were accepted, or are gone already; the others had changed since they were looked at, or may not
        go."""
        return _accepted(deletions, await _in_parallel(self._delete, deletions))

    async def write_status(self, owner: Manifest, status: dict[str, Any]) -> None:
        """Server-side apply of the operator's share of the status, if `owner` does not show it already."""
        if is_shown(owner, status):
            return
        metadata = owner["metadata"]
        identity = {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]}
        manifest = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "metadata": identity,
            "status": {name: value for name, value in _written(status).items() if value is not None},
        }
        try:
            await self._cluster.apply(manifest, subresource="status")
        except (NotFoundError, ConflictError):
            logger.info("gone before its status was written", extra={"object": name_of(owner)})

    async def _delete(self, deletion: Deletion) -> bool | Refusal:
        try:
            await self._cluster.delete(deletion)
        except ConflictError:
            return False
        except (ForbiddenError, InvalidError) as error:
            return _refusal(deletion.resource.kind, deletion.name, error, stays=True)
        except NotFoundError:
            # Already gone: what was wanted. The cache learns it from its watch.
            return True
        return True

    async def _patch(self, patch: Patch) -> bool | Refusal:
        try:
            answer = await self._cluster.json_patch(patch)
        except ForbiddenError as error:
            return _refusal(patch.resource.kind, patch.name, error, stays=True)
        except (ConflictError, InvalidError, NotFoundError) as error:
            if isinstance(error, InvalidError) and error.is_rule:
                logger.warning("a change was refused: %s", error.message, extra={"object": patch.name})
            return False
        self._caches.remember(answer)
        return True

    async def _apply(self, manifest: Manifest) -> Refusal | None:
        live = self._caches.get(resource_of(manifest), namespace_of(manifest), name_of(manifest))
        if live is not None and self._written.get(_key(manifest)) == (_digest(manifest), edition_of(live)):
            return None
        try:
            answer = await self._cluster.apply(manifest)
        except (ForbiddenError, InvalidError) as error:
            return _refusal(str(manifest["kind"]), name_of(manifest), error)
        self._note(manifest, answer)
        self._caches.remember(answer)
        return None

    async def _create(self, manifest: Manifest, *, is_strict: bool) -> Manifest | str | Refusal:
        try:
            answer = await self._cluster.create(manifest, is_strict=is_strict)
        except AlreadyExistsError:
            return name_of(manifest)
        except (ForbiddenError, InvalidError) as error:
            return _refusal(str(manifest["kind"]), name_of(manifest), error)
        except NotFoundError as error:
            if not error.is_unserved:
                raise
            return _not_served(manifest)
        if resource_of(manifest) in APPLIED_LATER:
            self._note(manifest, answer)
        self._caches.remember(answer)
        return answer

    def _note(self, manifest: Manifest, answer: Manifest) -> None:
        if len(self._written) >= self._forget_at:
            self._written = {key: left for key, left in self._written.items() if self._caches.get(*key) is not None}
            self._forget_at = _FEW + 2 * len(self._written)
        self._written[_key(manifest)] = (_digest(manifest), edition_of(answer))


def _by_kind(manifests: Iterable[Manifest]) -> list[list[Manifest]]:
    """In order; neighbours of one kind do not rely on each other, and there may be a thousand of them."""
    return [list(alike) for _, alike in groupby(manifests, key=lambda manifest: manifest["kind"])]


def is_shown(owner: Manifest, status: Mapping[str, Any]) -> bool:
    """Whether a write of `status` would change nothing."""
    shown = owner.get("status") or {}
    return all(shown.get(name) == value for name, value in _written(status).items())


def _written(status: Mapping[str, Any]) -> dict[str, Any]:
    """A map that we empty becomes null on the server, which its schema refuses: one without entries is left out."""
    return {name: None if value == {} else value for name, value in status.items()}


def _accepted(asked: Sequence[Item], answers: Iterable[bool | Refusal]) -> tuple[Item, ...]:
    return tuple(item for item, answer in zip(asked, answers, strict=True) if answer is True)


def _refusal(kind: str, name: str, error: ForbiddenError | InvalidError, *, stays: bool = False) -> Refusal:
    reason = RefusalReason.INVALID
    if isinstance(error, ForbiddenError):
        reason = RefusalReason.QUOTA_EXCEEDED if error.is_quota else RefusalReason.FORBIDDEN
    return Refusal(kind, name, reason, error.message, stays)


def _not_served(manifest: Manifest) -> Refusal:
    kind, api_version = str(manifest["kind"]), manifest["apiVersion"]
    message = f"this cluster knows no {kind} of {api_version}"
    return Refusal(kind, name_of(manifest), RefusalReason.NOT_SERVED, message)


def _key(manifest: Manifest) -> tuple[Resource, str | None, str]:
    return resource_of(manifest), namespace_of(manifest), name_of(manifest)


def _digest(manifest: Manifest) -> str:
    """Of all but the UID, a precondition of an apply that no creation can know."""
    metadata = {name: value for name, value in manifest["metadata"].items() if name != "uid"}
    return hashlib.sha256(json.dumps({**manifest, "metadata": metadata}, sort_keys=True).encode()).hexdigest()


async def _in_parallel(call: Callable[[Item], Awaitable[Answer]], items: Iterable[Item]) -> list[Answer]:
    """Results in order. The first error is raised after all calls have ended, so none runs on unseen."""
    gate = asyncio.Semaphore(_MAX_PARALLEL_CALLS)

    async def gated(item: Item) -> Answer:
        async with gate:
            return await call(item)

    answers = await asyncio.gather(*(gated(item) for item in items), return_exceptions=True)
    done: list[Answer] = []
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        done.append(answer)
    return done
