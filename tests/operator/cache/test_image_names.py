"""Image references as users write them, against what container runtimes list."""

import pytest

from sweyard_operator.cache_agent.image_names import normalize, registry_host

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("written", "listed"),
    [
        ("busybox:1", "docker.io/library/busybox:1"),
        ("busybox", "docker.io/library/busybox:latest"),
        ("team/tool:2", "docker.io/team/tool:2"),
        ("localhost/tool:2", "localhost/tool:2"),
        ("registry:5000/a/b", "registry:5000/a/b:latest"),
        ("registry:5000/a/b:1", "registry:5000/a/b:1"),
        (f"registry:5000/a/b@{DIGEST}", f"registry:5000/a/b@{DIGEST}"),
        (f"registry:5000/a/b:1@{DIGEST}", f"registry:5000/a/b@{DIGEST}"),
        (f"busybox:1@{DIGEST}", f"docker.io/library/busybox@{DIGEST}"),
    ],
)
def test_references_are_compared_in_their_full_form(written: str, listed: str) -> None:
    assert normalize(written) == listed
    assert normalize(listed) == listed


def test_the_registry_is_the_host() -> None:
    assert registry_host("registry:5000/a/b:1") == "registry:5000"
    assert registry_host("busybox:1") == "docker.io"
