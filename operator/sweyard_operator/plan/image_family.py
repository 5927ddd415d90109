"""Which images share layers, as far as names tell: data sets build one base a repository and one image a commit."""

import re

from sweyard_operator.cache_agent.image_names import normalize

_INSTANCE = re.compile(r"[-._](\d+|[0-9a-f]{7,40})$")
"""SWE-bench ends the repository itself with a pull request's number, SWE-smith with a commit."""


def family_of(image: str) -> str:
    """The repository, less tag, digest and what tells one task's image from the next."""
    repository = normalize(image).partition("@")[0]
    path, slash, last = repository.rpartition("/")
    return f"{path}{slash}{_INSTANCE.sub('', last.partition(':')[0])}"
