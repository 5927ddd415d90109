"""What placement knows of shared layers comes from the agents' reports."""

from sweyard_operator.cache_agent.protocol import ImageReport, ImageState, NodeReport
from sweyard_operator.plan.image_layers import reported_sizes, shared_bytes

FAMILY = "docker.io/t/x"


def report(node: str, layers: dict[str, int], **sizes: int) -> NodeReport:
    images = {f"t/x:{tag}": ImageReport(state=ImageState.WAITING, num_bytes=size) for tag, size in sizes.items()}
    return NodeReport(node=node, images=images, families={FAMILY: layers})


def test_a_familys_layers_are_those_that_all_nodes_found_in_all_its_images() -> None:
    reports = [report("n1", {"base": 100, "a": 5}, a=105), report("n2", {"base": 100, "b": 7}, b=107)]
    assert shared_bytes(reports) == {FAMILY: 100}
    assert reported_sizes(["t/x:a", "t/x:b"], reports) == {"t/x:a": (105, 100), "t/x:b": (107, 100)}


def test_while_most_of_a_family_is_unknown_nothing_counts_as_shared() -> None:
    reports = [report("n1", {"base": 100, "a": 5}, a=105)]
    assert reported_sizes([f"t/x:{tag}" for tag in "abc"], reports) == {"t/x:a": (105, 0)}


def test_an_image_alone_shares_nothing() -> None:
    assert reported_sizes(["t/x:a"], [report("n1", {"base": 100, "a": 5}, a=105)]) == {"t/x:a": (105, 0)}
