"""Image references as runtimes spell them: `busybox:1` is listed as `docker.io/library/busybox:1`."""


def normalize(image: str) -> str:
    """The full form of a reference (host, path, tag or digest), by the rules of the distribution reference grammar.

    Beside a digest the tag says nothing, and runtimes drop it.
    """
    host, slash, rest = image.partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost"):
        host, rest = "docker.io", image if slash else f"library/{image}"
    name, at, digest = rest.partition("@")
    path, slash, last = name.rpartition("/")
    repository, colon, tag = last.partition(":")
    if at:
        return f"{host}/{path}{slash}{repository}@{digest}"
    return f"{host}/{path}{slash}{repository}:{tag if colon else 'latest'}"


def registry_host(image: str) -> str:
    """Host an image comes from."""
    return normalize(image).partition("/")[0]
