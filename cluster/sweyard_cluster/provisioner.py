"""The process that makes and removes the directories behind claims: `python -m ...provisioner KUBECONFIG DIRECTORY`."""

import http.client
import shutil
import sys
import time
from pathlib import Path

from .api import Api, ApiError
from .storage import claims_to_serve, volume_object, volumes_to_remove

PERIOD_SECONDS = 0.5
GONE, EXISTS = 404, 409


def serve_once(api: Api, directory: Path) -> None:
    """Bring volumes in line with claims; what another pass did already is no error."""
    claims = api.get("/api/v1/persistentvolumeclaims")["items"]
    volumes = api.get("/api/v1/persistentvolumes")["items"]
    for wanted in claims_to_serve(claims, volumes):
        place = directory / wanted["name"]
        place.mkdir(exist_ok=True)
        # Pods run as whatever user they like, and a host path takes no fsGroup.
        place.chmod(0o777)
        tolerate(api, EXISTS, "POST", "/api/v1/persistentvolumes", volume_object(**wanted, directory=directory))
    for name in volumes_to_remove(volumes):
        shutil.rmtree(directory / name, ignore_errors=True)
        tolerate(api, GONE, "DELETE", f"/api/v1/persistentvolumes/{name}", None)


def tolerate(api: Api, status: int, method: str, path: str, body: dict[str, object] | None) -> None:
    try:
        api.call(method, path, body)
    except ApiError as error:
        if error.status != status:
            raise


def main(kubeconfig: Path, directory: Path) -> None:
    """Serve for ever; an API server that is away is waited for."""
    api = Api(kubeconfig)
    while True:
        try:
            serve_once(api, directory)
        except (OSError, http.client.HTTPException, ApiError) as error:
            print(error, file=sys.stderr, flush=True)
        time.sleep(PERIOD_SECONDS)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
