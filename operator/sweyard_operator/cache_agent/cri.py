"""The Container Runtime Interface (runtime.v1) over its Unix socket, as far as caching images needs it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import grpc

from sweyard_api.constants import GROUP, LABEL_CACHE, LABEL_COMPONENT
from sweyard_operator.cache_agent import content_pb2, cri_pb2, images_pb2
from sweyard_operator.cache_agent.image_names import normalize
from sweyard_operator.cache_agent.protocol import AGENT_COMPONENT, PullFailure
from sweyard_operator.cache_agent.pull_reasons import reason_in
from sweyard_operator.cache_agent.registry_auth import RegistryAuth

_CALL_SECONDS = 30.0
_CRI_IMAGES = (("containerd-namespace", "k8s.io"),)
"""Metadata of calls to containerd itself: CRI's images are in this namespace."""
_MARK = f"{GROUP}/pulled-for"
_POD_NAMESPACE = "io.kubernetes.pod.namespace"


class PullError(Exception):
    """A pull failed; `reason` is typed, the text is the runtime's own."""

    def __init__(self, reason: PullFailure, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class HeldImage:
    """One image as the runtime lists it."""

    num_bytes: int
    """Compressed."""
    digest: str = ""
    """Of its manifest or index, with the algorithm."""
    image_id: str = ""
    """The same for all its names."""


class ImageRuntime(Protocol):
    """What the agent needs of a container runtime."""

    async def held_images(self) -> Mapping[str, HeldImage]:
        """Every tag and digest that the runtime can start without a pull."""
        ...

    async def images_in_use(self) -> frozenset[str]:
        """Images of existing containers, by id and by every name."""
        ...

    async def pull(self, image: str, auth: RegistryAuth | None, *, timeout_seconds: float) -> None:
        """Bring an image to the node. Raises PullError."""
        ...

    async def remove(self, image: str) -> None:
        """Remove an image with all its names; no error if it is gone."""
        ...

    async def used_bytes(self) -> int:
        """Bytes that images take on disk (image list sizes are compressed and would mislead)."""
        ...

    async def marks(self) -> Mapping[str, str]:
        """By image, in full: the cache that it was pulled for. Of a runtime that keeps no marks, none."""
        ...

    async def mark(self, image: str, keeper: str) -> None:
        """Say for which cache an image was pulled; no error if it is gone."""
        ...

    async def caches_here(self) -> frozenset[str]:
        """Caches, with their namespaces, that have an agent on the node."""
        ...


class CriRuntime:
    """ImageRuntime over a CRI socket."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel
        self._is_containerd = True

    @classmethod
    def connect(cls, socket_path: str) -> Self:
        """Lazily connect: a runtime that restarts is found again by gRPC itself."""
        return cls(grpc.aio.insecure_channel(f"unix://{socket_path}"))

    async def held_images(self) -> Mapping[str, HeldImage]:
        """Every tag and digest that the runtime can start without a pull."""
        reply = await self._call("ImageService/ListImages", cri_pb2.ListImagesRequest(), cri_pb2.ListImagesResponse)
        return {
            name: HeldImage(int(image.size), digest_of(name, image.repo_digests), image.id)
            for image in reply.images
            for name in (*image.repo_tags, *image.repo_digests)
        }

    async def images_in_use(self) -> frozenset[str]:
        """Images of existing containers, by id and by every name."""
        request = cri_pb2.ListContainersRequest()
        reply = await self._call("RuntimeService/ListContainers", request, cri_pb2.ListContainersResponse)
        used = {name for c in reply.containers for name in (c.image.image, c.image_ref) if name}
        listed = await self._call("ImageService/ListImages", cri_pb2.ListImagesRequest(), cri_pb2.ListImagesResponse)
        # Kubelets start containers by an image's id: all its names are in use then.
        for image in listed.images:
            names = {*image.repo_tags, *image.repo_digests}
            if used & {image.id, *names}:
                used |= names
        return frozenset(used)

    async def pull(self, image: str, auth: RegistryAuth | None, *, timeout_seconds: float) -> None:
        """Bring an image to the node. Raises PullError."""
        request = cri_pb2.PullImageRequest(image=cri_pb2.ImageSpec(image=image))
        if auth is not None:
            # Without its address, as kubelets send it: containerd, which compares that with the host that it asks (for
            # docker.io another), would else drop the password in silence.
            request.auth.CopyFrom(
                cri_pb2.AuthConfig(username=auth.username, password=auth.password, identity_token=auth.identity_token)
            )
        try:
            await self._call("ImageService/PullImage", request, cri_pb2.PullImageResponse, timeout_seconds)
        except grpc.aio.AioRpcError as error:
            details = error.details() or ""
            raise PullError(classify(error.code(), details), details) from error

    async def remove(self, image: str) -> None:
        """Remove an image with all its names; no error if it is gone."""
        request = cri_pb2.RemoveImageRequest(image=cri_pb2.ImageSpec(image=image))
        await self._call("ImageService/RemoveImage", request, cri_pb2.RemoveImageResponse)

    async def used_bytes(self) -> int:
        """Bytes that images take on disk (image list sizes are compressed and would mislead)."""
        reply = await self._call("ImageService/ImageFsInfo", cri_pb2.ImageFsInfoRequest(), cri_pb2.ImageFsInfoResponse)
        return sum(int(usage.used_bytes.value) for usage in reply.image_filesystems) + await self._content_bytes()

    async def _content_bytes(self) -> int:
        """containerd's image filesystem is its snapshots; beside them it keeps layers as they came."""
        if not self._is_containerd:
            return 0
        listing = self._channel.unary_stream(
            "/containerd.services.content.v1.Content/List",
            request_serializer=content_pb2.ListContentRequest.SerializeToString,
            response_deserializer=content_pb2.ListContentResponse.FromString,
        )
        try:
            replies = listing(content_pb2.ListContentRequest(), metadata=_CRI_IMAGES, timeout=_CALL_SECONDS)
            return sum([int(info.size) async for reply in replies for info in reply.info])
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise
            # Another runtime: its image filesystem is all that it keeps.
            self._is_containerd = False
            return 0

    async def marks(self) -> Mapping[str, str]:
        """By image, in full: the cache that it was pulled for. Of a runtime that keeps no marks, none."""
        request = images_pb2.ListImagesRequest(filters=[f'labels."{_MARK}"'])
        reply = await self._call_containerd("List", request, images_pb2.ListImagesResponse)
        found = () if reply is None else reply.images
        return {image.name: label.value for image in found for label in image.labels if label.key == _MARK}

    async def mark(self, image: str, keeper: str) -> None:
        """Say for which cache an image was pulled; no error if it is gone."""
        asked = images_pb2.ListImagesRequest(filters=[f'name=="{normalize(image)}"'])
        reply = await self._call_containerd("List", asked, images_pb2.ListImagesResponse)
        for found in () if reply is None else reply.images:
            # With its target: over an update without one containerd (2.4) ends itself.
            marked = images_pb2.Image(
                name=found.name, labels=[images_pb2.Label(key=_MARK, value=keeper)], target=found.target
            )
            mask = images_pb2.FieldMask(paths=[f"labels.{_MARK}"])
            request = images_pb2.UpdateImageRequest(image=marked, update_mask=mask)
            try:
                await self._call_containerd("Update", request, images_pb2.UpdateImageResponse)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.NOT_FOUND:
                    raise

    async def caches_here(self) -> frozenset[str]:
        """Caches, with their namespaces, that have an agent on the node."""
        agents = cri_pb2.PodSandboxFilter(label_selector=[cri_pb2.Label(key=LABEL_COMPONENT, value=AGENT_COMPONENT)])
        request = cri_pb2.ListPodSandboxRequest(filter=agents)
        reply = await self._call("RuntimeService/ListPodSandbox", request, cri_pb2.ListPodSandboxResponse)
        labels = [{label.key: label.value for label in pod.labels} for pod in reply.items]
        return frozenset(keeper_of(one.get(_POD_NAMESPACE, ""), one.get(LABEL_CACHE, "")) for one in labels)

    async def close(self) -> None:
        """Close the channel."""
        await self._channel.close()

    async def _call_containerd(self, method: str, request: Any, response: type[Any]) -> Any:
        """Of its service of images; None of another runtime."""
        if not self._is_containerd:
            return None
        call = self._channel.unary_unary(
            f"/containerd.services.images.v1.Images/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString,
        )
        try:
            return await call(request, metadata=_CRI_IMAGES, timeout=_CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise
            self._is_containerd = False
            return None

    async def _call(
        self, method: str, request: Any, response: type[Any], timeout_seconds: float = _CALL_SECONDS
    ) -> Any:
        serialize: Callable[[Any], bytes] = type(request).SerializeToString
        call = self._channel.unary_unary(
            f"/runtime.v1.{method}", request_serializer=serialize, response_deserializer=response.FromString
        )
        return await call(request, timeout=timeout_seconds)


def keeper_of(namespace: str, cache: str) -> str:
    """How marks name a cache."""
    return f"{namespace}/{cache}"


def digest_of(name: str, repo_digests: Sequence[str]) -> str:
    """What `name` is held as: the digest under its own repository, since one image may have several."""
    if "@" in name:
        return name.partition("@")[2]
    repository = name.rpartition(":")[0]
    return next((text.partition("@")[2] for text in repo_digests if text.partition("@")[0] == repository), "")


def classify(code: grpc.StatusCode, details: str) -> PullFailure:
    """The runtime wraps the registry's answer in prose; this reads the type back out of it."""
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return PullFailure.TIMEOUT
    found = reason_in(details)
    # It says "not found" of what it will not take, too.
    return PullFailure.NOT_FOUND if code is grpc.StatusCode.NOT_FOUND and found is PullFailure.PULL_FAILED else found
