"""What a holder, and with it its Lease, is called."""

import getpass
import random
import socket
from collections.abc import Mapping
from typing import Any

from sweyard_sandbox.pool.api import ApiClient, ApiError

_MAX_NAME_TRIES = 100
_POD_NAME = "authentication.kubernetes.io/pod-name"
_SERVICE_ACCOUNT = "system:serviceaccount:"


async def find_holder_names(api: ApiClient, environment: Mapping[str, str], rng: random.Random) -> list[str]:
    """Names to try, in order: that by which admission policies know the holder, else the user's with a number.

    In a pod that need not be the host's name, which a Job with indices, a long name or the host's network changes.
    Raises ApiError, UnreachableError.
    """
    name = environment.get("SWEYARD_POD_NAME") or known_name(await _ask_who(api))
    if name is None and environment.get("KUBERNETES_SERVICE_HOST"):
        name = socket.gethostname()
    if name is not None:
        return [name, *(f"{name}-{number}" for number in range(1, _MAX_NAME_TRIES))]
    user = "".join(letter for letter in getpass.getuser().lower() if letter.isalnum()) or "user"
    return [f"{user}-{rng.getrandbits(40):010x}" for _ in range(3)]


def known_name(user: Mapping[str, Any]) -> str | None:
    """Of a core/v1 UserInfo: the pod that its token is bound to, else its service account; None for people."""
    pods: list[str] = (user.get("extra") or {}).get(_POD_NAME) or []
    if pods:
        return pods[0]
    username = str(user.get("username", ""))
    return username.rpartition(":")[2] if username.startswith(_SERVICE_ACCOUNT) else None


async def _ask_who(api: ApiClient) -> Mapping[str, Any]:
    """What the API server takes us for; nothing where it lets nobody ask."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await api.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=review)
    except ApiError as error:
        if error.status not in (403, 404):
            raise
        return {}
    user: Mapping[str, Any] = answer["status"]["userInfo"]
    return user
