"""Pool: one holder's use of a RolloutPool."""

import asyncio
import contextlib
import getpass
import os
import random
import secrets
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sweyard_api.constants import API_VERSION
from sweyard_sandbox.driver.channel import ChannelError
from sweyard_sandbox.driver.client import DriverClient
from sweyard_sandbox.driver.sandbox import DriverSandbox
from sweyard_sandbox.errors import ClaimTimeoutError, FailureReason, InfrastructureError
from sweyard_sandbox.pool.api import ApiClient, ApiError, UnreachableError
from sweyard_sandbox.pool.claiming import Claims
from sweyard_sandbox.pool.credentials import Credentials, load_in_cluster, load_kubeconfig
from sweyard_sandbox.pool.demand import Demand
from sweyard_sandbox.pool.lease import HolderLease
from sweyard_sandbox.pool.pods import SandboxPod
from sweyard_sandbox.pool.store import PodStore
from sweyard_sandbox.pool.waiting_reasons import explain_waiting
from sweyard_sandbox.pool.watching import PodWatch
from sweyard_sandbox.runtimes.kubernetes.connector import HEARTBEAT_SECONDS, PodConnector

LEASE_SECONDS = 30
_MAX_NAME_TRIES = 100
_DEFAULT_CLAIM_SECONDS = 600.0


class Pool:
    """Claims sandboxes under one Lease. Everything held is given back by `close`."""

    def __init__(
        self,
        api: ApiClient,
        lease: HolderLease,
        *,
        namespace: str,
        name: str,
        holder: str,
        heartbeat_seconds: float,
        rng: random.Random,
    ) -> None:
        self.holder = holder
        """Name of the Lease."""
        self._api = api
        self._lease = lease
        self._namespace = namespace
        self._name = name
        self._heartbeat_seconds = heartbeat_seconds
        self._store = PodStore(rng)
        self._demand = Demand(api, namespace=namespace, pool=name, holder=holder, lease_uid=lease.uid)
        self._claims = Claims(api, self._store, self._demand, namespace=namespace, holder=holder)
        self._watch = PodWatch(api, namespace, name, self._store, self._claims.dispatch)
        self._sandboxes: set[DriverSandbox] = set()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def num_lost_races(self) -> int:
        """Claims that another holder won."""
        return self._claims.num_lost_races

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

        Without `credentials`: those of the pod one runs in, else of the kubeconfig. `holder` is the Lease's name; by
        default the pod's (numbered if there is more than one in it), outside of a cluster `<user>-<random>`.
        Raises ApiError (what is forbidden or not found, in the server's words), UnreachableError, CredentialsError.
        """
        rng = rng or random.Random()
        api = ApiClient(credentials or find_credentials(dict(environment)))
        try:
            pool_uid = await read_pool_uid(api, namespace, name)
            for candidate in [holder] if holder else build_holder_names(environment, rng):
                lease = HolderLease(
                    api,
                    namespace=namespace,
                    pool=name,
                    pool_uid=pool_uid,
                    holder=candidate,
                    duration_seconds=lease_seconds,
                )
                if await lease.create():
                    break
            else:
                raise ValueError(f"holder {candidate!r}: a Lease of this name exists; give another name")
            pool = cls(
                api,
                lease,
                namespace=namespace,
                name=name,
                holder=candidate,
                heartbeat_seconds=heartbeat_seconds,
                rng=rng,
            )
            await pool._start()
            return pool
        except BaseException:
            await api.close()
            raise

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
        """Sandboxes of all `images`, in their order, or none: what was claimed is given back if one fails."""
        await self.announce(images)
        tasks = [asyncio.ensure_future(self.acquire(image, deadline_seconds=deadline_seconds)) for image in images]
        try:
            sandboxes = await asyncio.gather(*tasks)
            yield sandboxes
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*(sandbox.close() for sandbox in ended if isinstance(sandbox, DriverSandbox)))

    async def acquire(self, image: str, *, deadline_seconds: float) -> DriverSandbox:
        """A claimed sandbox, ready to run commands; a pod that dies before that is replaced by another.

        Raises ClaimTimeoutError saying what the pool waits for, InfrastructureError.
        """
        try:
            async with asyncio.timeout(deadline_seconds):
                while True:
                    pod = await self._claims.claim(image)
                    with contextlib.suppress(ChannelError):
                        return await self._open(pod)
        except TimeoutError:
            raise ClaimTimeoutError(await self._explain_waiting(image)) from None
        except ApiError as error:
            raise InfrastructureError(FailureReason.FORBIDDEN, str(error)) from error

    async def acquire_pod(self, image: str, *, deadline_seconds: float) -> SandboxPod:
        """Only claim, without a stream to the sandbox; give it back by `release_pod`."""
        try:
            async with asyncio.timeout(deadline_seconds):
                return await self._claims.claim(image)
        except TimeoutError:
            raise ClaimTimeoutError(await self._explain_waiting(image)) from None

    async def release_pod(self, pod: SandboxPod) -> None:
        """Give a pod back: it is deleted."""
        await self._claims.release(pod)

    async def announce(self, images: Sequence[str]) -> None:
        """Say which images the next attempts want, in order of need; replaces the last list."""
        await self._demand.announce(images)

    async def close(self) -> None:
        """Give everything back and remove the Lease, and with it the demand."""
        self._stop(InfrastructureError(FailureReason.DELETED, "the pool client is closed"))
        await asyncio.gather(*(sandbox.close() for sandbox in list(self._sandboxes)))
        await self._claims.drain()
        await asyncio.gather(*(self._claims.release(pod) for pod in list(self._claims.held.values())))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(ApiError, UnreachableError):  # else it lapses, and the operator clears up
            await self._lease.delete()
        await self._api.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _start(self) -> None:
        for work in (self._keep_lease(), self._keep_watch(), self._demand.keep()):
            self._tasks.append(asyncio.create_task(work))
        listed = asyncio.create_task(self._watch.is_listed.wait())
        await asyncio.wait([listed, self._tasks[1]], return_when=asyncio.FIRST_COMPLETED)
        listed.cancel()
        if self._tasks[1].done():
            await self.close()
            raise self._claims.stopped or AssertionError("a watch ends only by an error")

    async def _keep_lease(self) -> None:
        self._stop(await self._lease.keep())

    async def _keep_watch(self) -> None:
        try:
            await self._watch.run()
        except ApiError as error:
            self._stop(InfrastructureError(FailureReason.FORBIDDEN, f"the pool's pods cannot be watched: {error}"))

    def _stop(self, error: InfrastructureError) -> None:
        """Nobody may go on with sandboxes that the operator is about to take."""
        self._claims.stop(error)
        for sandbox in self._sandboxes:
            sandbox.client.abandon(error)

    async def _open(self, pod: SandboxPod) -> DriverSandbox:
        connector = PodConnector(
            self._api, self._namespace, pod.name, pod.uid, heartbeat_seconds=self._heartbeat_seconds
        )
        client = DriverClient(connector, secrets.token_hex(8))

        async def destroy() -> None:
            self._sandboxes.discard(sandbox)
            await self._claims.release(pod)

        sandbox = DriverSandbox(pod.name, client, destroy)
        self._sandboxes.add(sandbox)
        try:
            await client.open()
        except BaseException:
            await asyncio.shield(sandbox.close())
            raise
        return sandbox

    async def _explain_waiting(self, image: str) -> str:
        path = pool_path(self._namespace, self._name)
        pool: dict[str, Any] | None = None
        watch_error = self._watch.last_error
        try:
            pool = await self._api.request("GET", path)
        except UnreachableError as error:
            watch_error = watch_error or str(error)
        except ApiError as error:
            if error.status != 404:
                watch_error = watch_error or str(error)
        return explain_waiting(image, pool=pool, counts=self._store.count(), watch_error=watch_error)


async def read_pool_uid(api: ApiClient, namespace: str, name: str) -> str:
    """Raises ApiError: NotFound if there is no such pool."""
    return str((await api.request("GET", pool_path(namespace, name)))["metadata"]["uid"])


def pool_path(namespace: str, name: str) -> str:
    return f"/apis/{API_VERSION}/namespaces/{namespace}/rolloutpools/{name}"


def find_credentials(environment: Mapping[str, str]) -> Credentials:
    """Of the pod one runs in, else of $KUBECONFIG or ~/.kube/config."""
    if environment.get("KUBECONFIG"):
        return load_kubeconfig(Path(environment["KUBECONFIG"].split(os.pathsep)[0]))
    if environment.get("KUBERNETES_SERVICE_HOST"):
        return load_in_cluster(environment)
    return load_kubeconfig(Path(environment.get("HOME", "~")).expanduser() / ".kube/config")


def build_holder_names(environment: Mapping[str, str], rng: random.Random) -> list[str]:
    """Names to try, in order."""
    pod = environment.get("SWEYARD_POD_NAME") or (
        socket.gethostname() if environment.get("KUBERNETES_SERVICE_HOST") else ""
    )
    if pod:
        return [pod, *(f"{pod}-{number}" for number in range(1, _MAX_NAME_TRIES))]
    user = "".join(letter for letter in getpass.getuser().lower() if letter.isalnum()) or "user"
    return [f"{user}-{rng.getrandbits(40):010x}" for _ in range(3)]
