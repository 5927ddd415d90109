"""Does a registry answer, and how much does it still give: from this machine; nodes may have another way out.

A HEAD request of a manifest costs no pull, and tells what Docker Hub has left for this address.
"""

import re
import urllib.error
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from email.message import Message
from typing import Any, Protocol

from sweyard_cli.cache.registry_client import ACCEPTED, RegistryError
from sweyard_cli.doctor.finding import Finding, Level
from sweyard_operator.cache_agent.image_names import normalize, split_reference

_MOST_ASKED = 3
"""Images of each registry."""
_REMAINING = re.compile(r"(\d+)(?:;w=(\d+))?")


class Opens(Protocol):
    """What is needed of a RegistryClient."""

    def open(
        self, method: str, host: str, path: str, *, headers: Mapping[str, str] | None = None
    ) -> AbstractContextManager[Any]: ...


def check_registries(images: Sequence[str], client: Opens) -> Iterator[Finding]:
    """A finding for each registry that some of `images` are in."""
    by_host: dict[str, list[str]] = {}
    for image in images:
        host, _, rest = normalize(image).partition("/")
        by_host.setdefault(host, []).append(rest)
    for host, names in by_host.items():
        yield _check(host, names[:_MOST_ASKED], len(names), client)


def _check(host: str, names: Sequence[str], total: int, client: Opens) -> Finding:
    headers = Message()
    for name in names:
        repository, reference = split_reference(name)
        try:
            with client.open("HEAD", host, f"/v2/{repository}/manifests/{reference}", headers=ACCEPTED) as reply:
                headers = reply.headers
        except urllib.error.HTTPError as error:
            told = f"{host}/{name}: the registry answers {error.code} {error.reason}"
            return Finding(Level.PROBLEM, f"{told}; {_remedy(error.code)}")
        except (RegistryError, OSError) as error:
            return Finding(
                Level.WARNING,
                f"{host} does not answer from here ({getattr(error, 'reason', None) or error}): if nodes cannot reach "
                "it either, mirror its images (`sweyard cache mirror`)",
            )
    return judge_limit(host, headers.get("ratelimit-remaining"), total)


def judge_limit(host: str, told: str | None, images: int) -> Finding:
    """`told` as Docker Hub does: `76;w=21600`."""
    found = _REMAINING.match(told or "")
    if found is None:
        return Finding(Level.OK, f"{host} answers, and names no limit of pulls")
    left, hours = int(found[1]), int(found[2] or 0) / 3600
    window = f" in {hours:g} hours" if hours else ""
    if left < images:
        return Finding(
            Level.WARNING,
            f"{host} gives this address {left} more pulls{window}, fewer than the {images} images: give "
            "images.pullSecrets an account, or mirror them (`sweyard cache mirror`)",
        )
    return Finding(Level.OK, f"{host} answers, with {left} pulls left for this address{window}")


def _remedy(status: int) -> str:
    return {
        401: "name a Secret with a login in images.pullSecrets",
        403: "name a Secret with a login in images.pullSecrets",
        404: "is the image's name right?",
        429: "it is over its limit: give images.pullSecrets an account, or mirror (`sweyard cache mirror`)",
    }.get(status, "try again later")
