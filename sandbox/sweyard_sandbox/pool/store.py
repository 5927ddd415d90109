"""PodStore: the pods of a pool by UID, and the free ones by image. Every change and every take is O(1). Pure."""

import heapq
import random
from collections import Counter
from collections.abc import Iterable

from sweyard_sandbox.pool.pods import SandboxPod


class _FreePods:
    """A set of pods from which one can be drawn by chance."""

    def __init__(self) -> None:
        self.pods: list[SandboxPod] = []
        self._places: dict[str, int] = {}

    def add(self, pod: SandboxPod) -> None:
        self._places[pod.uid] = len(self.pods)
        self.pods.append(pod)

    def discard(self, uid: str) -> None:
        place = self._places.pop(uid, None)
        if place is None:
            return
        last = self.pods.pop()
        if last.uid != uid:
            self.pods[place] = last
            self._places[last.uid] = place


class PodStore:
    """What the watch has said, less what has been taken since."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._pods: dict[str, SandboxPod] = {}
        self._free: dict[str, _FreePods] = {}
        self._taken: dict[str, int] = {}
        """By UID: the use for which it was taken; once recycled it is another one's."""

    def put(self, pod: SandboxPod) -> None:
        """Replace what is known of a pod."""
        self._unfree(pod.uid)
        self._pods[pod.uid] = pod
        if pod.is_free and pod.recycled > self._taken.get(pod.uid, -1):
            self._free.setdefault(pod.image, _FreePods()).add(pod)

    def remove(self, uid: str) -> None:
        """The pod is gone."""
        self._unfree(uid)
        self._pods.pop(uid, None)
        self._taken.pop(uid, None)

    def replace_all(self, pods: Iterable[SandboxPod]) -> None:
        """Start over from a list."""
        self._pods, self._free = {}, {}
        for pod in pods:
            self.put(pod)
        self._taken = {uid: use for uid, use in self._taken.items() if uid in self._pods}

    def take(self, image: str) -> SandboxPod | None:
        """A free pod of `image`, not offered again; by chance, so that several holders seldom try the same one."""
        free = self._free.get(image)
        return None if free is None else self._take(self._rng.choice(free.pods))

    def take_lowest(self, image: str, number: int) -> list[SandboxPod]:
        """The free pods of `image` with the lowest UIDs: every holder's choice is the same."""
        free = self._free.get(image)
        pods = [] if free is None else heapq.nsmallest(number, free.pods, key=lambda pod: pod.uid)
        return [self._take(pod) for pod in pods]

    def give_back(self, uid: str) -> None:
        """A taken pod was not claimed after all; it is offered again if it is known to be free."""
        self._taken.pop(uid, None)
        if (pod := self._pods.get(uid)) is not None:
            self.put(pod)

    def num_free(self, image: str) -> int:
        """Free pods of `image`."""
        free = self._free.get(image)
        return 0 if free is None else len(free.pods)

    def uids(self) -> set[str]:
        """Of all pods."""
        return set(self._pods)

    def held_by(self, holder: str) -> list[SandboxPod]:
        """Pods that a holder has claimed."""
        return [pod for pod in self._pods.values() if pod.holder == holder]

    def count(self) -> dict[str, int]:
        """Pods by state, for messages."""
        counts = Counter(map(_state, self._pods.values()))
        return {state: counts[state] for state in ("free", "claimed", "starting", "leaving") if counts[state]}

    def _take(self, pod: SandboxPod) -> SandboxPod:
        self._taken[pod.uid] = pod.recycled
        self._unfree(pod.uid)
        return pod

    def _unfree(self, uid: str) -> None:
        if (old := self._pods.get(uid)) is not None and (free := self._free.get(old.image)) is not None:
            free.discard(uid)
            if not free.pods:
                del self._free[old.image]


def _state(pod: SandboxPod) -> str:
    if pod.is_leaving:
        return "leaving"
    if pod.holder:
        return "claimed"
    return "free" if pod.is_ready else "starting"
