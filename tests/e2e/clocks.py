"""A wall clock that is wrong, for a container: a library that its programs load before the C library."""

import subprocess
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("another_clock.c")
PLACE = Path("/var/tmp/sweyard-another-clock")
LIBRARY = PLACE / "clock.so"
AHEAD_SECONDS = 7_200


def build_clock() -> None:
    """The library, where all nodes of this machine find it."""
    PLACE.mkdir(exist_ok=True)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", LIBRARY, SOURCE, "-ldl"], check=True)


def wrong_clock(container: str) -> dict[str, Any]:
    """What a PodSpec needs for it."""
    env = {"LD_PRELOAD": str(LIBRARY), "SWEYARD_CLOCK_AHEAD": str(AHEAD_SECONDS)}
    changed = {
        "name": container,
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "volumeMounts": [{"name": "clock", "mountPath": str(PLACE), "readOnly": True}],
    }
    return {"containers": [changed], "volumes": [{"name": "clock", "hostPath": {"path": str(PLACE)}}]}
