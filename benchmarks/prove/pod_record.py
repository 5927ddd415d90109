"""What etcd itself wrote down about pods: a witness that no list, watch or counter of ours can mislead.

A pod is one key from its creation to its deletion, and its creation's revision tells it from others of its name.
"""

import asyncio
import base64
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

_PREFIX = "/registry/pods/"
_RETRY_SECONDS = 0.5


@dataclass(slots=True)
class PodRecord:
    """Pods of all namespaces as `namespace/name`, revision by revision."""

    alive: dict[str, int] = field(default_factory=dict)
    """Revision of its creation by pod."""
    created: list[tuple[str, int]] = field(default_factory=list)
    """Every pod that ever was, in order."""
    deleted: list[tuple[str, int]] = field(default_factory=list)
    births: Counter[str] = field(default_factory=Counter)
    """Pods that ever were, by namespace."""
    count: Counter[str] = field(default_factory=Counter)
    """Pods that there are, by namespace."""
    most: Counter[str] = field(default_factory=Counter)
    """The most that there were at any revision."""
    revision: int = 0

    def hear(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Events of etcd's watch, in order; those that were heard before change nothing."""
        for event in events:
            entry = event["kv"]
            revision = int(entry["mod_revision"])
            if revision <= self.revision:
                continue
            pod = base64.b64decode(entry["key"]).decode().removeprefix(_PREFIX)
            namespace = pod.partition("/")[0]
            if event.get("type") == "DELETE":
                self.deleted.append((pod, self.alive.pop(pod)))
                self.count[namespace] -= 1
            elif pod not in self.alive:
                self.alive[pod] = int(entry["create_revision"])
                self.created.append((pod, self.alive[pod]))
                self.births[namespace] += 1
                self.count[namespace] += 1
                self.most[namespace] = max(self.most[namespace], self.count[namespace])
            self.revision = revision


async def follow(record: PodRecord, etcd_port: int) -> None:
    """Keep `record` until cancelled. Raises RuntimeError when etcd has forgotten what was not heard yet."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None), read_bufsize=1 << 20) as session:
        while True:
            try:
                async for result in _watch(session, etcd_port, record.revision + 1):
                    if result.get("canceled"):
                        raise RuntimeError(f"etcd ended the watch: {result}")
                    record.hear(result.get("events") or ())
            except (aiohttp.ClientError, OSError):
                await asyncio.sleep(_RETRY_SECONDS)


async def _watch(session: aiohttp.ClientSession, port: int, start: int) -> AsyncIterator[Mapping[str, Any]]:
    end = _PREFIX[:-1] + chr(ord(_PREFIX[-1]) + 1)
    wish = {"key": _encode(_PREFIX), "range_end": _encode(end), "start_revision": str(start)}
    async with session.post(f"http://127.0.0.1:{port}/v3/watch", json={"create_request": wish}) as reply:
        pending = b""
        async for chunk in reply.content.iter_any():
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                yield json.loads(line)["result"]


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
