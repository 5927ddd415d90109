"""PodStore: the pods of a pool by UID, and the free ones by image. Pure."""

import random
from collections.abc import Iterable

from sweyard_sandbox.pool.pods import SandboxPod


class PodStore:
    """What the watch has said, less what has been taken since."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._pods: dict[str, SandboxPod] = {}
        self._free: dict[str, dict[str, SandboxPod]] = {}
        self._taken: set[str] = set()

    def put(self, pod: SandboxPod) -> None:
        """Replace what is known of a pod."""
        self._unfree(pod.uid)
        self._pods[pod.uid] = pod
        if pod.is_free and pod.uid not in self._taken:
            self._free.setdefault(pod.image, {})[pod.uid] = pod

    def remove(self, uid: str) -> None:
        """The pod is gone."""
        self._unfree(uid)
        self._pods.pop(uid, None)
        self._taken.discard(uid)

    def replace_all(self, pods: Iterable[SandboxPod]) -> None:
        """Start over from a list."""
        self._pods, self._free = {}, {}
        for pod in pods:
            self.put(pod)
        self._taken &= self._pods.keys()

    def take(self, image: str) -> SandboxPod | None:
        """A free pod of `image`, not offered again; by chance, so that several holders seldom try the same one."""
        free = self._free.get(image)
        if not free:
            return None
        uid = self._rng.choice(list(free))
        self._taken.add(uid)
        pod = free[uid]
        self._unfree(uid)
        return pod

    def give_back(self, uid: str) -> None:
        """A taken pod was not claimed after all; it is offered again if it is known to be free."""
        self._taken.discard(uid)
        if (pod := self._pods.get(uid)) is not None:
            self.put(pod)

    def num_free(self, image: str) -> int:
        """Free pods of `image`."""
        return len(self._free.get(image, ()))

    def count(self) -> dict[str, int]:
        """Pods by state, for messages."""
        states = [_state(pod) for pod in self._pods.values()]
        return {state: states.count(state) for state in ("free", "claimed", "starting", "leaving") if state in states}

    def _unfree(self, uid: str) -> None:
        if (old := self._pods.get(uid)) is not None and (free := self._free.get(old.image)) is not None:
            free.pop(uid, None)
            if not free:
                del self._free[old.image]


def _state(pod: SandboxPod) -> str:
    if pod.is_leaving:
        return "leaving"
    if pod.holder:
        return "claimed"
    return "free" if pod.is_ready else "starting"
