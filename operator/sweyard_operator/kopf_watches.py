"""kopf watches our own kinds; its handlers only put a key into our queue.

kopf does not retry event handlers, and its timers and change handlers would put finalizers and annotations on our
objects: so nothing but `on.event` is used, and all work is the queue's.
"""

from collections.abc import Iterable
from typing import Any

import kopf

from sweyard_operator.context import Controller, Operator
from sweyard_operator.credentials import Credentials
from sweyard_operator.resources import Resource
from sweyard_operator.transport import open_session
from sweyard_operator.work_queue import Key

_SERVER_TIMEOUT_SECONDS = 240
_CLIENT_TIMEOUT_SECONDS = 300
_REQUEST_TIMEOUT_SECONDS = 60


def build_registry(operator: Operator, resources: Iterable[Resource]) -> kopf.OperatorRegistry:
    """A registry with one event handler a kind."""
    registry = kopf.OperatorRegistry()
    for resource in resources:
        group, version = resource.api_version.split("/")
        kopf.on.event(group, version, resource.plural, registry=registry, id="enqueue")(_enqueuer(operator, resource))
    return registry


def _enqueuer(operator: Operator, resource: Resource) -> Any:
    async def enqueue(namespace: str | None, name: str, **_: Any) -> None:
        operator.queue.add(Key(resource.kind, namespace or "", name))

    return enqueue


def build_settings() -> kopf.OperatorSettings:
    """Nothing that writes to objects, and an end for everything that waits."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.posting.loggers = False
    settings.scanning.disabled = True
    settings.peering.standalone = True
    settings.watching.server_timeout = _SERVER_TIMEOUT_SECONDS
    settings.watching.client_timeout = _CLIENT_TIMEOUT_SECONDS
    settings.watching.connect_timeout = 10
    settings.networking.request_timeout = _REQUEST_TIMEOUT_SECONDS
    return settings


async def watch_kinds(operator: Operator, credentials: Credentials, controllers: Iterable[Controller]) -> None:
    """Run kopf in this event loop until cancelled, or until the process is asked to end (kopf takes its signals)."""
    registry = build_registry(operator, [controller.resource for controller in controllers])

    async def login(**_: Any) -> kopf.AiohttpSession:
        return kopf.AiohttpSession(
            server=credentials.server,
            default_namespace=credentials.namespace,
            aiohttp_session=open_session(credentials),
        )

    kopf.on.login(registry=registry, id="login")(login)
    namespaces = operator.settings.namespaces
    await kopf.operator(
        registry=registry,
        settings=build_settings(),
        # Left to itself kopf asks for the name of the process's user, which no passwd file in the image knows.
        identity=operator.settings.identity,
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
    )
