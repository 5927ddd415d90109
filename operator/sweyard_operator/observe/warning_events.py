"""Warning events about objects that make pods: the only place where a refused or unmounted pod says why."""

from collections.abc import Iterable

from sweyard_operator.cluster import Cluster
from sweyard_operator.resources import EVENTS, Manifest

_MAX_LOOKUPS = 8
"""Enough to tell what is wrong with a gang; its pods mostly fail alike."""
_ALIKE = frozenset({"FailedBinding"})
"""Of a claim that will have no volume: the only word of it, and called Normal."""


async def observe_warnings(cluster: Cluster, namespace: str, uids: Iterable[str]) -> dict[str, str]:
    """The last Warning about each object, by UID."""
    found = {}
    for uid in list(uids)[:_MAX_LOOKUPS]:
        events, _ = await cluster.list(EVENTS, namespace, field_selector=f"involvedObject.uid={uid}")
        events = [event for event in events if event.get("type") == "Warning" or event.get("reason") in _ALIKE]
        if events:
            last = max(events, key=_event_time)
            found[uid] = f"{last.get('reason', '')}: {last.get('message', '')}"
    return found


def _event_time(event: Manifest) -> str:
    times = (event.get("lastTimestamp"), event.get("eventTime"), event["metadata"].get("creationTimestamp"))
    return next((str(time) for time in times if time), "")
