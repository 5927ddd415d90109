"""Parses each version of a pod once, however many passes look at it."""

from collections.abc import Collection

from sweyard_operator.observe.sandbox_pods import parse_pod
from sweyard_operator.plan.sandbox import SandboxPod
from sweyard_operator.resources import Manifest


class ParsedPods:
    """Of one pool: a pure function's results, by UID and resourceVersion."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, SandboxPod | None]] = {}

    def parse(self, pool: str, pool_uid: str, pod: Manifest) -> SandboxPod | None:
        """As `parse_pod`, always with the same pool."""
        uid, version = pod["metadata"]["uid"], pod["metadata"]["resourceVersion"]
        known = self._known.get(uid)
        if known is not None and known[0] == version:
            return known[1]
        parsed = parse_pod(pool, pool_uid, pod)
        self._known[uid] = (version, parsed)
        return parsed

    def keep_only(self, pods: Collection[Manifest]) -> None:
        """Forget all others, which are gone."""
        if len(self._known) > len(pods):
            living = {pod["metadata"]["uid"] for pod in pods}
            self._known = {uid: parsed for uid, parsed in self._known.items() if uid in living}
