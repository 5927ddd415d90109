"""CheckedClient: a client that takes for an answer of Kubernetes only what can be one."""

import json
from typing import Any

from kubernetes import client

NO_SERVER = (
    "what answers at {server} is no API server of Kubernetes: look at `server` in the kubeconfig, and for a proxy"
)


class CheckedClient(client.ApiClient):  # type: ignore[misc]  # the library has no types
    """Between here and a cluster there may be a proxy that puts its own page, such as a login, in the place of any
    answer, with status 200."""

    def response_deserialize(self, response_data: Any, response_types_map: Any = None) -> Any:
        """Raises ApiException with a sentence for what is no object of Kubernetes."""
        types = response_types_map or {}
        is_text = types.get(str(response_data.status)) in ("str", "bytearray", "bytes", "file", None)
        if 200 <= response_data.status <= 299 and not is_text and not _is_object(response_data.data):
            sentence = NO_SERVER.format(server=self.configuration.host)
            raise client.ApiException(status=0, reason=sentence, body=json.dumps({"message": sentence}))
        return super().response_deserialize(response_data, response_types_map)


def _is_object(body: bytes) -> bool:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and ("kind" in found or "gitVersion" in found)
