"""The cluster's own image registry, on the bridge's address."""

import http.client
from dataclasses import dataclass

import yaml

from .binaries import Binaries
from .node_config import PAUSE_IMAGE
from .paths import ClusterPaths
from .processes import ProcessTable
from .scratch_image import push, request, scratch_image
from .spec import ClusterSpec

NAME = "registry"
READY_SECONDS = 30.0


@dataclass(frozen=True)
class Registry:
    spec: ClusterSpec
    paths: ClusterPaths
    binaries: Binaries
    processes: ProcessTable

    @property
    def address(self) -> str:
        return self.spec.addresses.registry

    def start(self) -> None:
        """Serve, with the images that the cluster itself needs; repeatable."""
        config = self.paths.root / "registry.yaml"
        config.write_text(registry_config(self.address, str(self.paths.registry)))
        self.processes.start(NAME, ["docker-registry", "serve", str(config)], self.binaries.environment)
        self.processes.wait(NAME, self.answers, READY_SECONDS)
        self._provide(PAUSE_IMAGE, "pause", "/pause")
        self._provide(self.coredns_image, "coredns", "/coredns")

    @property
    def coredns_image(self) -> str:
        return f"coredns:{self.binaries.path('coredns').parent.name}"

    def stop(self) -> None:
        self.processes.stop(NAME)

    def answers(self) -> bool:
        try:
            return request(self.address, "GET", "/v2/")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def _provide(self, image: str, program: str, inside: str) -> None:
        name, _, tag = image.partition(":")
        if request(self.address, "HEAD", f"/v2/{name}/manifests/{tag}")[0] != 200:
            push(scratch_image({inside: self.binaries.path(program)}, [inside]), self.address, name, tag)


def registry_config(address: str, directory: str) -> str:
    return yaml.safe_dump(
        {
            "version": 0.1,
            "log": {"level": "warn", "accesslog": {"disabled": True}},
            "storage": {"filesystem": {"rootdirectory": directory}, "delete": {"enabled": True}},
            "http": {"addr": address},
        }
    )
