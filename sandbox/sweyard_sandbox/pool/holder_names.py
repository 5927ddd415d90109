"""What a holder, and with it its Lease, is called."""

import getpass
import random
import socket
from collections.abc import Mapping

_MAX_NAME_TRIES = 100


def build_holder_names(environment: Mapping[str, str], rng: random.Random) -> list[str]:
    """Names to try, in order: the pod's (admission policies know a holder by it), else the user's with a number."""
    pod = environment.get("SWEYARD_POD_NAME") or (
        socket.gethostname() if environment.get("KUBERNETES_SERVICE_HOST") else ""
    )
    if pod:
        return [pod, *(f"{pod}-{number}" for number in range(1, _MAX_NAME_TRIES))]
    user = "".join(letter for letter in getpass.getuser().lower() if letter.isalnum()) or "user"
    return [f"{user}-{rng.getrandbits(40):010x}" for _ in range(3)]
