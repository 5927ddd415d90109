"""What container runtimes know of registries by their hosts alone."""

HUB = "docker.io"
"""Docker Hub, as image names say it."""
_HUB_API = "registry-1.docker.io"


def api_host(host: str) -> str:
    """Where the registry that image names call `host` answers."""
    return _HUB_API if host == HUB else host


def is_loopback(host: str) -> bool:
    """Container runtimes take it that a registry on their own machine speaks HTTP."""
    name = host.partition(":")[0]
    return name == "localhost" or name.startswith("127.")
