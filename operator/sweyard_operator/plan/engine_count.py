"""How many engines a run has: as its trainer asks, within the bounds of inference.scaling, and as there is room;
whoever scales them."""

from typing import Any

from sweyard_api.constants import engine_name, gateway_name
from sweyard_api.inference import Inference
from sweyard_operator.build.engine import engine_pods
from sweyard_operator.build.gateway import GATEWAY_REPLICAS
from sweyard_operator.plan.engine_room import find_room, note_engine_let_go
from sweyard_operator.plan.plan import Patch
from sweyard_operator.plan.restart_policy import Running
from sweyard_operator.plan.run_pass import RunPass
from sweyard_operator.resources import DEPLOYMENTS, STATEFUL_SETS, Manifest, Resource, name_of, namespace_of


def fewest_engines(inference: Inference) -> int:
    """With which the trainer may start."""
    return inference.scaling.min_replicas if inference.scaling is not None else inference.replicas


def plan_engine_count(work: RunPass) -> int:
    """What the trainer at work asks for; before it asks, as many as there are, or the fewest. No more than find room
    with all of their pods."""
    inference = work.run.config.inference
    if inference.scaling is None:
        return inference.replicas
    wanted = _asked(work) or _present(work) or inference.scaling.min_replicas
    room = _room(work)
    bound = inference.replicas if room is None else min(room, inference.replicas)
    return max(min(wanted, bound), inference.scaling.min_replicas)


def scale_servers(work: RunPass) -> tuple[Patch, ...]:
    """Of those that exist, also where somebody else scaled them. Engines with the highest numbers go, which is what the
    trainer goes by."""
    name = work.run.name
    engines = work.snapshot.owned(STATEFUL_SETS, engine_name(name))
    gateway = work.snapshot.owned(DEPLOYMENTS, gateway_name(name))
    room = _room(work)
    is_short = engines is not None and room is not None and room < _present(work)
    note = note_engine_let_go(engines, work.now) if engines is not None and is_short else ()
    return (
        *_scale(STATEFUL_SETS, engines, engine_pods(work.run, plan_engine_count(work)), note),
        *_scale(DEPLOYMENTS, gateway, GATEWAY_REPLICAS),
    )


def _scale(
    resource: Resource, live: Manifest | None, count: int, note: tuple[dict[str, Any], ...] = ()
) -> tuple[Patch, ...]:
    if live is None or live["spec"]["replicas"] == count:
        return ()
    operations: tuple[dict[str, Any], ...] = (
        {"op": "test", "path": "/metadata/uid", "value": live["metadata"]["uid"]},
        {"op": "replace", "path": "/spec/replicas", "value": count},
        *note,
    )
    return (Patch(resource, str(namespace_of(live)), name_of(live), operations),)


def _room(work: RunPass) -> int | None:
    inference = work.run.config.inference
    return find_room(work, _present(work), fewest_engines(inference)) if inference.scaling is not None else None


def _asked(work: RunPass) -> int | None:
    report = work.snapshot.status.get("trainer") or {}
    is_of_now = isinstance(work.gang, Running) and report.get("attempt") == work.gang.job.attempt
    return report.get("engines") if is_of_now else None


def _present(work: RunPass) -> int:
    live = work.snapshot.owned(STATEFUL_SETS, engine_name(work.run.name))
    return int(live["spec"]["replicas"]) // engine_pods(work.run, 1) if live is not None else 0
