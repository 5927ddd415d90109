"""Mirrors: what is pulled, and what sandboxes are made of, has the mirror's name."""

import pytest

from sweyard_api.image_cache import RegistryMirror
from sweyard_api.rollout_pool import RolloutPoolSpec
from sweyard_operator.build.sandbox_pod import build_sandbox_pod
from sweyard_operator.plan.mirrors import mirrored

HUB = RegistryMirror(registry="docker.io", mirror="mirror.lan:5000/hub")
QUAY = RegistryMirror(registry="quay.io", mirror="mirror.lan:5000/quay")


@pytest.mark.parametrize(
    ("image", "pulled"),
    [
        ("python:3.12", "mirror.lan:5000/hub/library/python:3.12"),
        ("team/tool:1", "mirror.lan:5000/hub/team/tool:1"),
        ("docker.io/team/tool:1", "mirror.lan:5000/hub/team/tool:1"),
        ("quay.io/team/tool:1", "mirror.lan:5000/quay/team/tool:1"),
        ("ghcr.io/team/tool:1", "ghcr.io/team/tool:1"),
        ("quay.io.example/team/tool:1", "quay.io.example/team/tool:1"),
    ],
)
def test_an_image_is_pulled_from_the_mirror_of_its_registry(image: str, pulled: str) -> None:
    assert mirrored(image, [HUB, QUAY]) == pulled
    assert mirrored(image, []) == image


def test_a_sandbox_is_claimed_by_the_name_its_task_knows() -> None:
    owner = {
        "apiVersion": "sweyard.dev/v1alpha1",
        "kind": "RolloutPool",
        "metadata": {"name": "p", "namespace": "lab", "uid": "u"},
    }
    pod = build_sandbox_pod(owner, RolloutPoolSpec(replicas=1), slot=0, image="t:1", pull_from="mirror.lan/t:1")
    assert pod["spec"]["containers"][0]["image"] == "mirror.lan/t:1"
    assert pod["metadata"]["annotations"]["sweyard.dev/image"] == "t:1"
