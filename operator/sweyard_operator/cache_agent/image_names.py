"""Image references as runtimes spell them: `busybox:1` is listed as `docker.io/library/busybox:1`."""

import re
from functools import lru_cache

from sweyard_operator.cache_agent.registry_hosts import HUB

_INSTANCE = re.compile(r"[-._](\d+|[0-9a-f]{7,40})$")
"""SWE-bench ends the repository itself with a pull request's number, SWE-smith with a commit."""

_REMEMBERED = 16_384
"""A pass over a cache of thousands of images asks for each of them several times."""


def normalize(image: str) -> str:
    """The full form of a reference (host, path, tag or digest), by the rules of the distribution reference grammar.

    Beside a digest the tag says nothing, and runtimes drop it.
    """
    host, slash, rest = image.partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost"):
        host, rest = HUB, image if slash else f"library/{image}"
    name, at, digest = rest.partition("@")
    path, slash, last = name.rpartition("/")
    repository, colon, tag = last.partition(":")
    if at:
        return f"{host}/{path}{slash}{repository}@{digest}"
    return f"{host}/{path}{slash}{repository}:{tag if colon else 'latest'}"


def split_reference(rest: str) -> tuple[str, str]:
    """Repository, and tag or digest, of a full reference without its host."""
    repository, at, digest = rest.partition("@")
    if at:
        return repository, digest
    repository, _, tag = rest.rpartition(":")
    return repository, tag


@lru_cache(maxsize=_REMEMBERED)
def registry_host(image: str) -> str:
    """Host an image comes from."""
    return normalize(image).partition("/")[0]


@lru_cache(maxsize=_REMEMBERED)
def family_of(image: str) -> str:
    """The repository, less tag, digest and what tells one task's image from the next.

    Data sets build one base a repository and one image a commit: so images of a family share most of their layers.
    """
    repository = normalize(image).partition("@")[0]
    path, slash, last = repository.rpartition("/")
    return f"{path}{slash}{_INSTANCE.sub('', last.partition(':')[0])}"
