"""Placement: on enough nodes, within the bound, where the images are already; families together, steps apart."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from benchmarks.image_cache import measure_case
from benchmarks.image_world import bytes_on_disk, make_images
from hypothesis import example, given
from hypothesis import strategies as st

from sweyard_operator.cache_agent.image_names import family_of
from sweyard_operator.plan.placement import LOAD_BOUND, CacheImage, CacheNode, place

GB = 10**9
Placed = dict[str, tuple[str, ...]]
SIZES = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 40)), max_size=40)
"""Family and size of each image."""


def images_of(sizes: Sequence[tuple[int, int]]) -> list[CacheImage]:
    return [CacheImage(f"reg.io/family{family}:{i}", size * GB // 10) for i, (family, size) in enumerate(sizes)]


def nodes_of(count: int, placed: Placed | None = None, *, key: str = "held") -> list[CacheNode]:
    names = [f"n{i}" for i in range(count)]
    return [CacheNode(name, **{key: (placed or {}).get(name, ())}) for name in names]


def loads_of(placed: Placed, images: Sequence[CacheImage]) -> list[int]:
    by_name = {image.name: image for image in images}
    return [bytes_on_disk([by_name[name] for name in names]) for names in placed.values()]


def moves(before: Placed, after: Placed) -> int:
    return sum(len(set(names) - set(before.get(node, ()))) for node, names in after.items())


@given(sizes=SIZES, num_nodes=st.integers(0, 7), copies=st.integers(0, 9))
def test_each_image_is_on_as_many_nodes_as_asked_for_in_order_of_need(
    sizes: list[tuple[int, int]], num_nodes: int, copies: int
) -> None:
    images = images_of(sizes)
    placed = place(images, nodes_of(num_nodes), copies)
    for image in images:
        assert sum(image.name in names for names in placed.values()) == min(copies, num_nodes)
    order = [image.name for image in images]
    assert all(list(names) == [name for name in order if name in names] for names in placed.values())


@given(sizes=SIZES, num_nodes=st.integers(1, 7), copies=st.integers(1, 3), key=st.sampled_from(["held", "assigned"]))
@example(sizes=[*[(0, 1)] * 5, (0, 3), (0, 6)], num_nodes=5, copies=3, key="assigned")
def test_planned_again_nothing_moves(sizes: list[tuple[int, int]], num_nodes: int, copies: int, key: str) -> None:
    images = images_of(sizes)
    placed = place(images, nodes_of(num_nodes), copies)
    assert place(images, nodes_of(num_nodes, placed, key=key), copies) == placed


@given(sizes=SIZES, num_nodes=st.integers(2, 7), copies=st.integers(1, 3))
def test_no_node_is_above_the_bound_by_more_than_one_image(
    sizes: list[tuple[int, int]], num_nodes: int, copies: int
) -> None:
    images = images_of(sizes)
    placed = place(images, nodes_of(num_nodes), copies)
    loads = loads_of(placed, images)
    mean, largest = sum(loads) / num_nodes, max((image.num_bytes or 0 for image in images), default=0)
    assert max(loads) <= max(LOAD_BOUND * mean, mean + largest)


@given(sizes=SIZES, num_nodes=st.integers(2, 7), copies=st.integers(1, 3))
def test_a_node_that_leaves_moves_its_own_copies_alone(
    sizes: list[tuple[int, int]], num_nodes: int, copies: int
) -> None:
    images = images_of(sizes)
    before = place(images, nodes_of(num_nodes), copies)
    after = place(images, nodes_of(num_nodes - 1, before), copies)
    lost = before[f"n{num_nodes - 1}"] if copies < num_nodes else ()
    displaced = {node: set(before[node]) - set(names) for node, names in after.items()}
    assert moves(before, after) == len(lost) + sum(map(len, displaced.values()))
    # Besides, only nodes give that would be above the bound by more than one image.
    loads, sizes = loads_of(after, images), {image.name: image.num_bytes or 0 for image in images}
    mean = sum(loads) / len(loads)
    limit = max(LOAD_BOUND * mean, mean + max(sizes.values(), default=0))
    for load, names in zip(loads, displaced.values(), strict=True):
        assert not names or load + max(sizes[name] for name in names) > limit


def test_what_is_pulled_moves_to_an_added_node_only_if_it_is_above_the_bound() -> None:
    images = make_images(400, num_families=40, seed=0)
    before = place(images, nodes_of(20), 2)
    assert moves(before, place(images, nodes_of(21, before), 2)) == 0
    doubled = place(images, nodes_of(40, before), 2)
    loads = loads_of(doubled, images)
    assert max(loads) <= LOAD_BOUND * sum(loads) / 40
    assert min(loads[:20]) > sum(loads) / 40, "old nodes give no more than they must"


def test_a_lost_copy_of_what_another_node_still_holds_by_chance_is_not_pulled_again() -> None:
    images = make_images(12, num_families=40, seed=0)
    before = place(images, nodes_of(4), 1)
    extra = images[0].name
    holders = [node for node, names in before.items() if extra in names]
    other = next(name for name in before if name not in holders)
    nodes = [CacheNode(name, held=(*names, *([extra] if name == other else ()))) for name, names in before.items()]
    nodes = [node for node in nodes if node.name not in holders]
    assert extra in place(images, nodes, 1)[other]


@pytest.mark.parametrize(("num_nodes", "copies"), [(100, 1), (1_000, 1)])
def test_thousands_of_images_are_balanced_in_bytes_and_nothing_but_what_is_lost_moves(
    num_nodes: int, copies: int
) -> None:
    images = make_images(4_578, num_families=40, seed=0)
    case = measure_case(images, num_nodes, copies, seed=0)
    assert case.balance <= 1.15
    assert case.move_ratio == 1.0
    whole = sum(image.num_bytes or 0 for image in images) / bytes_on_disk(images)
    assert case.bytes_ratio < 0.85 * whole * copies / num_nodes, "families are together"


def test_what_was_told_before_sizes_were_known_is_balanced_before_it_is_pulled() -> None:
    images = [replace(image, shared_bytes=GB // 2) for image in make_images(460, num_families=2, seed=0)]
    blind = place([CacheImage(image.name) for image in images], nodes_of(100), 1)
    learned = place(images, nodes_of(100, blind, key="assigned"), 1)
    loads = loads_of(learned, images)
    assert max(loads) <= 1.1 * sum(loads) / 100
    assert place(images, nodes_of(100, learned, key="assigned"), 1) == learned
    pulled = place(images, nodes_of(100, blind, key="held"), 1)
    loads = loads_of(pulled, images)
    assert moves(blind, pulled) < moves(blind, learned) / 4, "what is on a disk moves only where it is far too much"


def test_a_node_holds_what_its_budget_is_of_all() -> None:
    images = [CacheImage(f"reg.io/f{i}:1", 2 * GB) for i in range(600)]
    nodes = [CacheNode(f"n{i}", budget_bytes=(3 if i < 5 else 1) * 100 * GB) for i in range(10)]
    held = [len(names) for names in place(images, nodes, 1).values()]
    assert all(0.85 * 90 < count <= 1.15 * 90 for count in held[:5])
    assert all(0.85 * 30 < count <= 1.15 * 30 for count in held[5:])


def test_images_of_one_step_are_on_different_nodes() -> None:
    images = [CacheImage(f"reg.io/f{i // 100}:{i}", 2 * GB) for i in range(800)]
    node_of = {name: node for node, names in place(images, nodes_of(40), 1).items() for name in names}
    steps = [[node_of[image.name] for image in images[i : i + 16]] for i in range(0, 800, 16)]
    assert sum(len(set(step)) for step in steps) / len(steps) >= 15.0


def test_sizes_that_are_only_partly_known_move_nothing_that_was_pulled() -> None:
    images = [CacheImage(f"reg.io/f{i}:1") for i in range(40)]
    before = place(images, nodes_of(4), 1)
    large = [CacheImage(image.name, 9 * GB if image.name in before["n0"] else None) for image in images]
    assert place([*large[:-1], CacheImage(large[-1].name, 1)], nodes_of(4, before), 1) == before
    known = [CacheImage(image.name, image.num_bytes or GB) for image in large]
    assert len(place(known, nodes_of(4, before), 1)["n0"]) < len(before["n0"])


@pytest.mark.parametrize(
    ("image", "family"),
    [
        ("swebench/sweb.eval.x86_64.django_1776_django-11039:v1", "sweb.eval.x86_64.django_1776_django"),
        ("namanjain12/aiohttp_final:0a1b2c3d4e", "aiohttp_final"),
        ("team/swesmith.x86_64.oauthlib_1776_oauthlib.1fd52536", "swesmith.x86_64.oauthlib_1776_oauthlib"),
        ("mswebench/ponylang_m_ponyc:pr-4595", "ponylang_m_ponyc"),
        ("registry:5000/a/numpy@sha256:" + "a" * 64, "numpy"),
    ],
)
def test_a_family_is_the_repository_without_the_task(image: str, family: str) -> None:
    assert family_of(image).rpartition("/")[2] == family
