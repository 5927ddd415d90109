"""The agent's two ConfigMaps on the API server."""

import logging
from typing import TypeVar

from pydantic import BaseModel

from sweyard_api.constants import API_VERSION, LABEL_CACHE
from sweyard_operator.cache_agent.envelope import seal, sealed, unseal
from sweyard_operator.cache_agent.protocol import (
    ASSIGNMENT_KEY,
    REPORT_KEY,
    Assignment,
    NodeReport,
    assignment_name,
    report_name,
)
from sweyard_operator.cluster import Cluster
from sweyard_operator.observe.image_cache import LABEL_ROLE, ROLE_REPORT
from sweyard_operator.resources import CONFIG_MAPS

log = logging.getLogger(__name__)

Said = TypeVar("Said", bound=BaseModel)


class ConfigMapMailbox:
    """Mailbox of one node in one cache."""

    def __init__(self, cluster: Cluster, *, namespace: str, cache: str, cache_uid: str, node: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._cache = cache
        self._cache_uid = cache_uid
        self._node = node

    async def read_assignment(self) -> Assignment | None:
        """What the operator wants; None before it said anything."""
        return await self._read(assignment_name(self._cache, self._node), ASSIGNMENT_KEY, Assignment)

    async def read_report(self) -> NodeReport | None:
        """Our own last report, for what must survive a restart."""
        return await self._read(report_name(self._cache, self._node), REPORT_KEY, NodeReport)

    async def _read(self, name: str, key: str, model: type[Said]) -> Said | None:
        """None, too, for what nobody of this version has written: whose it is writes it anew."""
        found = await self._cluster.find(CONFIG_MAPS, self._namespace, name)
        if found is None:
            return None
        try:
            return model.model_validate_json(unseal(sealed(found, key)))
        except ValueError as error:
            log.warning("ConfigMap %s cannot be read, and counts as absent: %s", name, type(error).__name__)
            return None

    async def write_report(self, report: NodeReport) -> None:
        """Replace our report."""
        owner = {"apiVersion": API_VERSION, "kind": "ImageCache", "name": self._cache, "uid": self._cache_uid}
        metadata = {
            "name": report_name(self._cache, self._node),
            "namespace": self._namespace,
            "labels": {LABEL_CACHE: self._cache, LABEL_ROLE: ROLE_REPORT},
            "ownerReferences": [owner],
        }
        content = seal(REPORT_KEY, report.model_dump_json(exclude_defaults=True))
        await self._cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **content})
