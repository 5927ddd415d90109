"""Placement of thousands of images on up to thousands of nodes, by the operator's own planner.

    python -m benchmarks.image_cache                           # 4,578 images; 100, 300 and 1,000 nodes; 1 to 5 copies
    python -m benchmarks.image_cache --images 500 --nodes 16

    python -m benchmarks.image_cache --peer                    # then also what benchmarks.image_peer measures (root)

Pure but for --peer: needs no cluster. Of all cases the worst:
- `balance`: the fullest node against the mean, in bytes on disk;
- `balance_layers_untold`: the same where the planner knows how large images are but not which layers they share, as if
  nothing but the nodes' reports tells;
- `balance_learned`: the same where nothing was told at first, and then the agents' reports tell what registries told
  them: sizes, and the layers that the images assigned to a node share;
- `move_ratio`: copies pulled after ten losses of a node against the copies that the lost nodes had;
- `balance_after_losses`: what that leaves;
- `join_move_ratio`: copies pulled after three nodes joined, against a node's equal share of all copies for each.
And `plan_s`, CPU time of one plan of 5,000 images on 1,000 nodes from nothing, `replan_s`, of one that finds all in
place, and `bytes_ratio`, what one copy of each image needs against a copy on every node. With --peer also, of 60
images on three real nodes: `peer_seconds_ratio`, `peer_bytes_ratio`, `warm_start_fraction`, `wave_seconds_ratio` and
`budget_exceeded_bytes`. The last line is JSON.
"""

import argparse
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks import image_peer
from benchmarks.figures import print_figures
from benchmarks.image_world import bytes_on_disk, layers_on_disk, make_images, make_manifests

from sweyard_operator.cache_agent.protocol import Assignment, ImageReport, ImageState, NodeReport
from sweyard_operator.cache_agent.registry import Manifest
from sweyard_operator.cache_agent.shared_layers import family_layers
from sweyard_operator.observe.image_cache import ObservedCache
from sweyard_operator.plan.image_inputs import placement_inputs
from sweyard_operator.plan.placement import CacheImage, CacheNode, place

_FAMILIES = (10, 500)
"""R2E-Gym has ten repositories; other data sets have hundreds."""
_COPIES = (1, 2, 3, 4, 5)
_LOSSES, _JOINS = 10, 3
_PLANNED = (5_000, 1_000)
PEER_KEYS = (
    "peer_seconds_ratio",
    "peer_bytes_ratio",
    "warm_start_fraction",
    "wave_seconds_ratio",
    "budget_exceeded_bytes",
)
_RUNS = 3
Placed = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Case:
    """Figures of one number of families, nodes and copies."""

    balance: float
    balance_layers_untold: float
    balance_learned: float
    move_ratio: float
    balance_after_losses: float
    join_move_ratio: float
    bytes_ratio: float


def measure(num_images: int, num_nodes: Sequence[int], seed: int) -> dict[str, Any]:
    """All cases, then the planning time."""
    cases = []
    for num_families in _FAMILIES:
        images = make_images(num_images, num_families=num_families, seed=seed)
        for count in num_nodes:
            for copies in _COPIES:
                case = measure_case(images, count, copies, seed)
                cases.append((copies, case))
                print(f"{num_families} families, {count} nodes, {copies} copies: {_tell(case)}", flush=True)
    plan_s, replan_s = time_plans(seed)
    return {
        "images": num_images,
        "nodes": list(num_nodes),
        "balance": round(max(case.balance for _, case in cases), 3),
        "balance_layers_untold": round(max(case.balance_layers_untold for _, case in cases), 3),
        "balance_learned": round(max(case.balance_learned for _, case in cases), 3),
        "move_ratio": round(max(case.move_ratio for _, case in cases), 3),
        "balance_after_losses": round(max(case.balance_after_losses for _, case in cases), 3),
        "join_move_ratio": round(max(case.join_move_ratio for _, case in cases), 3),
        "plan_s": round(plan_s, 2),
        "replan_s": round(replan_s, 2),
        "bytes_ratio": round(max(case.bytes_ratio for copies, case in cases if copies == 1), 4),
    }


def measure_case(images: Sequence[CacheImage], num_nodes: int, copies: int, seed: int) -> Case:
    """Place, then lose nodes one by one."""
    nodes = [f"node-{i}" for i in range(num_nodes)]
    placed = _place(images, nodes, {}, copies)
    loads = _loads(images, placed)
    whole = [replace(image, shared_bytes=0) for image in images]
    untold = _loads(images, _place(whole, nodes, {}, copies))
    move_ratio, after = _lose_nodes(images, nodes, placed, copies, random.Random(seed))
    everywhere = num_nodes * bytes_on_disk(images)
    manifests = make_manifests(images)
    placed_learning = _place_learning(images, nodes, copies, manifests)
    learned = [layers_on_disk(manifests[name] for name in names) for names in placed_learning.values()]
    ratio = sum(loads) / everywhere
    joined = _join_nodes(images, nodes, placed, copies)
    return Case(_balance(loads), _balance(untold), _balance(learned), move_ratio, after, joined, ratio)


def _place_learning(
    images: Sequence[CacheImage], nodes: Sequence[str], copies: int, manifests: Mapping[str, Manifest]
) -> Placed:
    """As operator and agents do it: place what nothing is known of, survey, place again before anything is pulled."""
    names = tuple(image.name for image in images)
    placed = place([CacheImage(name) for name in names], [CacheNode(node) for node in nodes], copies)
    reports = {node: _survey(node, placed[node], manifests) for node in nodes}
    told = {node: Assignment(images=tuple(placed[node]), max_parallel_pulls=3) for node in nodes}
    observed = ObservedCache(names, None, tuple(nodes), reports, (), (), told=told)
    return place(*placement_inputs(observed, reports, {}), copies)


def _survey(node: str, assigned: Sequence[str], manifests: Mapping[str, Manifest]) -> NodeReport:
    waiting = {image: ImageReport(state=ImageState.WAITING, num_bytes=manifests[image].num_bytes) for image in assigned}
    return NodeReport(node=node, images=waiting, families=family_layers(assigned, manifests))


def _lose_nodes(
    images: Sequence[CacheImage], nodes: Sequence[str], placed: Placed, copies: int, rng: random.Random
) -> tuple[float, float]:
    left, moved, lost = list(nodes), 0, 0
    for _ in range(min(_LOSSES, len(nodes) - copies - 1)):
        gone = left.pop(rng.randrange(len(left)))
        after = _place(images, left, placed, copies)
        moved += sum(len(set(after[node]).difference(placed[node])) for node in left)
        lost += len(placed[gone])
        placed = after
    return moved / lost, _balance(_loads(images, placed))


def _join_nodes(images: Sequence[CacheImage], nodes: Sequence[str], placed: Placed, copies: int) -> float:
    there, moved, share = list(nodes), 0, 0.0
    for number in range(_JOINS):
        there.append(f"joined-{number}")
        after = _place(images, there, placed, copies)
        moved += sum(len(set(after[node]).difference(placed.get(node, ()))) for node in there)
        share += len(images) * min(copies, len(there)) / len(there)
        placed = after
    return moved / share


def _place(images: Sequence[CacheImage], nodes: Sequence[str], held: Placed, copies: int) -> Placed:
    return place(images, [CacheNode(node, held=held.get(node, ())) for node in nodes], copies)


def _loads(images: Sequence[CacheImage], placed: Placed) -> list[int]:
    by_name = {image.name: image for image in images}
    return [bytes_on_disk([by_name[name] for name in names]) for names in placed.values()]


def _balance(loads: Sequence[int]) -> float:
    return max(loads) / statistics.fmean(loads)


def time_plans(seed: int) -> tuple[float, float]:
    """CPU seconds of a plan from nothing and of one that moves nothing: the worst of the copies, medians of runs."""
    num_images, num_nodes = _PLANNED
    nodes = [f"node-{i}" for i in range(num_nodes)]
    fresh, again = [], []
    for num_families in _FAMILIES:
        images = make_images(num_images, num_families=num_families, seed=seed)
        for copies in (_COPIES[0], _COPIES[-1]):
            placed = _place(images, nodes, {}, copies)
            fresh.append(_time(images, nodes, {}, copies))
            again.append(_time(images, nodes, placed, copies))
    return max(fresh), max(again)


def _time(images: Sequence[CacheImage], nodes: Sequence[str], held: Placed, copies: int) -> float:
    seconds = []
    for _ in range(_RUNS):
        began = time.process_time()
        _place(images, nodes, held, copies)
        seconds.append(time.process_time() - began)
    return statistics.median(seconds)


def _tell(case: Case) -> str:
    return (
        f"balance {case.balance:.3f}, layers untold {case.balance_layers_untold:.3f}, "
        f"learned {case.balance_learned:.3f}; moves {case.move_ratio:.3f} of the least, "
        f"then {case.balance_after_losses:.3f}; a node that joins takes {case.join_move_ratio:.3f} of a share; "
        f"{case.bytes_ratio:.2%} of the bytes of copies: all"
    )


def merge_peer(figures: Mapping[str, Any], peer: Mapping[str, Any]) -> dict[str, Any]:
    """With those of real nodes. Raises KeyError where one was not measured."""
    return {**figures, **{name: peer[name] for name in PEER_KEYS}}


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=4_578)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 300, 1_000])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peer", action="store_true", help="compare with a DaemonSet on real nodes, as root")
    arguments = parser.parse_args()
    if arguments.peer:
        image_peer.require_root("benchmarks.image_cache --peer")
    figures = measure(arguments.images, arguments.nodes, arguments.seed)
    if arguments.peer:
        figures = merge_peer(figures, image_peer.run(image_peer.IMAGES, image_peer.NODES))
    print_figures({"benchmark": "image_cache", **figures})


if __name__ == "__main__":
    main()
