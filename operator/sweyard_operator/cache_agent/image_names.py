"""Image references as runtimes spell them: `busybox:1` is listed as `docker.io/library/busybox:1`."""


def normalize(image: str) -> str:
    """The full form of a reference (host, path, tag or digest), by the rules of the distribution reference grammar."""
    host, slash, rest = image.partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost"):
        host, rest = "docker.io", image if slash else f"library/{image}"
    return f"{host}/{rest}"


def registry_host(image: str) -> str:
    """Host an image comes from."""
    return normalize(image).partition("/")[0]
