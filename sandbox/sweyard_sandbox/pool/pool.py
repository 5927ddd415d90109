"""Pool: one holder's use of a RolloutPool."""

import asyncio
import os
import random
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from sweyard_sandbox.driver.channel import ChannelError
from sweyard_sandbox.driver.client import DriverClient
from sweyard_sandbox.driver.sandbox import DriverSandbox
from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.pool.api import ApiClient
from sweyard_sandbox.pool.credentials import Credentials
from sweyard_sandbox.pool.credentials import find_credentials as find_credentials
from sweyard_sandbox.pool.holder_names import find_holder_names
from sweyard_sandbox.pool.holding import Holding
from sweyard_sandbox.pool.lease import HolderLease, create_lease
from sweyard_sandbox.pool.opening import open_stream
from sweyard_sandbox.pool.pods import SandboxPod
from sweyard_sandbox.pool.pool_object import pool_path as pool_path
from sweyard_sandbox.pool.waiting_reasons import Waiting
from sweyard_sandbox.runtimes.kubernetes.connector import HEARTBEAT_SECONDS, MAX_OPENING, PodConnector
from sweyard_sandbox.runtimes.kubernetes.pod_sandbox import PodSandbox

LEASE_SECONDS = 30
_DEFAULT_CLAIM_SECONDS = 600.0
_MAX_UNOPENED = 3
"""Sandboxes in a row whose stream does not open: another would be used up for nothing."""


class Pool:
    """Claims sandboxes under one Lease. Everything held is given back by `close`."""

    def __init__(
        self,
        api: ApiClient,
        lease: HolderLease,
        *,
        namespace: str,
        name: str,
        heartbeat_seconds: float,
        rng: random.Random,
    ) -> None:
        self.holder = lease.holder
        """Name of the Lease."""
        self._api = api
        self._namespace = namespace
        self._heartbeat_seconds = heartbeat_seconds
        self._turns = asyncio.Semaphore(MAX_OPENING)
        self._holding = Holding(api, lease, namespace=namespace, pool=name, rng=rng, on_stop=self._abandon)
        self._claims = self._holding.claims
        self._sandboxes: set[DriverSandbox] = set()
        self._closed = False

    @classmethod
    async def connect(
        cls,
        *,
        namespace: str,
        name: str,
        credentials: Credentials | None = None,
        environment: Mapping[str, str] = os.environ,
        holder: str | None = None,
        lease_seconds: int = LEASE_SECONDS,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        rng: random.Random | None = None,
    ) -> Self:
        """Make a Lease and begin to watch the pool.

        Without `credentials`: those of the kubeconfig, else of the pod one runs in. `holder` is the Lease's name; by
        default that of the pod or service account that the credentials are of (numbered if there is more than one
        holder), else `<user>-<random>`.
        Raises ApiError (what is forbidden or not found, in the server's words), UnreachableError, CredentialsError.
        """
        rng = rng or random.Random()
        api = ApiClient(credentials or find_credentials(dict(environment)), rng=rng)
        try:
            names = [holder] if holder else await find_holder_names(api, environment, rng)
            lease = await create_lease(api, names, namespace=namespace, pool=name, duration_seconds=lease_seconds)
        except BaseException:
            await api.close()
            raise
        pool = cls(api, lease, namespace=namespace, name=name, heartbeat_seconds=heartbeat_seconds, rng=rng)
        try:
            await pool._holding.start()
        except BaseException:
            await asyncio.shield(pool.close())
            raise
        return pool

    @property
    def stopped(self) -> InfrastructureError | None:
        """Why nothing can be had of this client any more."""
        return self._claims.queue.stopped

    @property
    def num_lost_races(self) -> int:
        """Claims that another holder won."""
        return self._claims.num_lost_races

    @asynccontextmanager
    async def claim(
        self, image: str, *, deadline_seconds: float = _DEFAULT_CLAIM_SECONDS
    ) -> AsyncIterator[DriverSandbox]:
        """A sandbox for the length of a `with` block."""
        sandbox = await self.acquire(image, deadline_seconds=deadline_seconds)
        try:
            yield sandbox
        finally:
            await sandbox.close()

    @asynccontextmanager
    async def claim_many(
        self, images: Sequence[str], *, deadline_seconds: float = _DEFAULT_CLAIM_SECONDS
    ) -> AsyncIterator[list[DriverSandbox]]:
        """Sandboxes of all `images`, in their order, or none; see pool.batching."""
        sandboxes = await self.acquire_many(images, deadline_seconds=deadline_seconds)
        try:
            yield sandboxes
        finally:
            await asyncio.gather(*(sandbox.close() for sandbox in sandboxes))

    async def acquire(self, image: str, *, deadline_seconds: float) -> DriverSandbox:
        """A claimed sandbox, ready to run commands; a pod that dies before that is replaced by another.

        Raises ClaimTimeoutError saying what the pool waits for, InfrastructureError.
        """
        async with self._holding.limit([image], deadline_seconds) as progress:
            pod = await self._claims.claim(image)
            progress.is_opening = True
            return await self._open_or_replace(pod)

    async def acquire_many(self, images: Sequence[str], *, deadline_seconds: float) -> list[DriverSandbox]:
        """Sandboxes of all `images`, in their order, or none: what was claimed is given back if one fails.

        A pod that dies while its stream opens leaves its own place to its replacement. Raises as `acquire` does.
        """
        async with self._holding.limit(images, deadline_seconds) as progress:
            pods = await self._holding.batches.claim(images)
            progress.is_opening = True
            tasks = [asyncio.ensure_future(self._open_or_replace(pod)) for pod in pods]
            try:
                return await asyncio.gather(*tasks)
            except BaseException:
                await asyncio.shield(self._claims.clean(_give_up(tasks)))
                raise

    async def acquire_pod(self, image: str, *, deadline_seconds: float) -> SandboxPod:
        """Only claim, without a stream to the sandbox; give it back by `release_pod`. Raises as `acquire` does."""
        async with self._holding.limit([image], deadline_seconds):
            return await self._claims.claim(image)

    async def acquire_pods(self, images: Sequence[str], *, deadline_seconds: float) -> list[SandboxPod]:
        """Only claim all or none; give each back by `release_pod`. Raises as `acquire` does."""
        async with self._holding.limit(images, deadline_seconds):
            return await self._holding.batches.claim(images)

    async def release_pod(self, pod: SandboxPod) -> None:
        """Give a pod back: it is deleted."""
        await self._claims.release(pod)

    async def announce(self, images: Sequence[str]) -> None:
        """Say which images the next attempts want, in order of need; replaces the last list.

        Raises ApiError for a refusal; a server that is away is told when it is back.
        """
        await self._holding.demand.announce(images)

    def num_waiting(self, image: str) -> int:
        """Claims of `image` here that wait for a free sandbox."""
        return self._claims.queue.num_waiting(image)

    async def explain_waiting(self, image: str) -> Waiting:
        """What a claim of `image` waits for at this moment."""
        return await self._holding.explain_waiting(image)

    async def close(self) -> None:
        """Give everything back and remove the Lease, and with it the demand. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._holding.stop(InfrastructureError(FailureReason.DELETED, "the pool client is closed"))
        await asyncio.gather(*(sandbox.close() for sandbox in list(self._sandboxes)))
        await self._holding.close()
        await self._api.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _abandon(self, error: InfrastructureError) -> None:
        for sandbox in self._sandboxes:
            sandbox.client.abandon(error)

    async def _open_or_replace(self, pod: SandboxPod) -> DriverSandbox:
        for attempt in range(_MAX_UNOPENED):
            try:
                return await self._open(pod)
            except ChannelError as error:
                if attempt == _MAX_UNOPENED - 1:
                    message = f"no stream to {_MAX_UNOPENED} sandboxes in a row could be opened: {error}"
                    raise InfrastructureError(FailureReason.CHANNEL_LOST, message) from error
            pod = await self._claims.claim(pod.image)
        raise AssertionError("unreachable")

    async def _open(self, pod: SandboxPod) -> DriverSandbox:
        connector = PodConnector(
            self._api,
            self._namespace,
            pod.name,
            pod.uid,
            container_id=pod.container_id,
            heartbeat_seconds=self._heartbeat_seconds,
        )
        client = DriverClient(connector, secrets.token_hex(8), turns=self._turns)

        async def give_back(may_serve_again: bool) -> None:
            self._sandboxes.discard(sandbox)
            if may_serve_again and pod.is_recyclable:
                # Half a release would be a leak until the Lease ends.
                await asyncio.shield(self._claims.clean(self._recycle(pod, connector)))
            else:
                await self._claims.release(pod)

        sandbox = PodSandbox(pod.name, client, give_back)
        self._sandboxes.add(sandbox)
        try:
            await open_stream(client, connector)
        except BaseException:
            sandbox.forbid_reuse()
            await asyncio.shield(sandbox.close())
            raise
        return sandbox

    async def _recycle(self, pod: SandboxPod, connector: PodConnector) -> None:
        async with self._turns:
            await self._claims.recycle(pod, connector.end_first_process)


async def _give_up(tasks: "Sequence[asyncio.Task[DriverSandbox]]") -> None:
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.gather(*(sandbox.close() for sandbox in ended if isinstance(sandbox, DriverSandbox)))
