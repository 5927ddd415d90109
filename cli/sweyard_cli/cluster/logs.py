"""Logs of a run's pods, its sandboxes and the operator, from the API server."""

import queue
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kubernetes import client

from sweyard_api.constants import GROUP, LABEL_COMPONENT, LABEL_POOL, LABEL_RUN, VERSION
from sweyard_api.kinds import TRAINING_RUN
from sweyard_cli.cluster.connection import Connection
from sweyard_cli.cluster.log_lines import LogLine, Reordering, merge, parse_line
from sweyard_cli.cluster.sentences import told_plainly
from sweyard_cli.errors import UserError

_HOLD_SECONDS = 0.5
_READ_SECONDS = 3600


class Part(StrEnum):
    """What a log is of."""

    TRAINER = "trainer"
    ENGINE = "engine"
    GATEWAY = "gateway"
    SANDBOX = "sandbox"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class LogSource:
    """One container."""

    namespace: str
    pod: str
    container: str

    @property
    def name(self) -> str:
        """Before each of its lines."""
        return f"{self.pod}/{self.container}"


def list_sources(connection: Connection, run: str, parts: Collection[Part]) -> list[LogSource]:
    """Containers that have begun. Raises UserError."""
    core = client.CoreV1Api(connection.api_client)
    own = [part for part in parts if part in (Part.TRAINER, Part.ENGINE, Part.GATEWAY)]
    asked: list[tuple[str | None, str]] = []
    if own:
        asked.append((connection.namespace, f"{LABEL_RUN}={run},{LABEL_COMPONENT} in ({','.join(own)})"))
    if Part.SANDBOX in parts:
        pool = pool_of(connection, run)
        asked.append((connection.namespace, f"{LABEL_POOL}={pool},{LABEL_COMPONENT}=sandbox"))
    if Part.OPERATOR in parts:
        asked.append((None, f"{LABEL_COMPONENT}=operator"))
    found: list[LogSource] = []
    with told_plainly(f"pods of {connection.namespace}/{run} cannot be listed"):
        for namespace, selector in asked:
            if namespace is None:
                pods = core.list_pod_for_all_namespaces(label_selector=selector)
            else:
                pods = core.list_namespaced_pod(namespace, label_selector=selector)
            found += sources_of(connection.api_client.sanitize_for_serialization(pods)["items"])
    return found


def pool_of(connection: Connection, run: str) -> str:
    """The pool that a run takes its sandboxes from. Raises UserError."""
    custom = client.CustomObjectsApi(connection.api_client)
    with told_plainly(f"TrainingRun {connection.namespace}/{run}"):
        found = custom.get_namespaced_custom_object(GROUP, VERSION, connection.namespace, TRAINING_RUN.plural, run)
    return str((found["spec"].get("sandboxes") or {}).get("poolRef") or run)


def sources_of(pods: Sequence[Mapping[str, Any]]) -> list[LogSource]:
    """Pure: containers of these pods that have begun, or had before they were started again."""
    return [
        LogSource(pod["metadata"]["namespace"], pod["metadata"]["name"], container["name"])
        for pod in pods
        for kind in ("initContainerStatuses", "containerStatuses")
        for container in (pod.get("status") or {}).get(kind) or ()
        if container.get("restartCount") or "waiting" not in (container.get("state") or {"waiting": {}})
    ]


class Logs:
    """Of some containers."""

    def __init__(
        self, connection: Connection, sources: Sequence[LogSource], *, since_seconds: int | None, tail: int | None
    ) -> None:
        self._core = client.CoreV1Api(connection.api_client)
        self._sources = sources
        self._options = {"since_seconds": since_seconds, "tail_lines": tail}

    def read(self) -> Iterator[LogLine]:
        """What there is. Raises UserError."""
        return merge([list(self._lines(source, follow=False)) for source in self._sources])

    def follow(self) -> Iterator[LogLine]:
        """What there is and what comes, until every container has ended. Raises UserError then if a log broke off."""
        lines: queue.SimpleQueue[Arrival] = queue.SimpleQueue()
        for source in self._sources:
            threading.Thread(target=self._pump, args=(source, lines), daemon=True).start()
        return in_order(lines, len(self._sources))

    def _pump(self, source: LogSource, lines: "queue.SimpleQueue[Arrival]") -> None:
        try:
            for line in self._lines(source, follow=True):
                lines.put(line)
        except UserError as error:
            lines.put(error)
        finally:
            lines.put(None)

    def _lines(self, source: LogSource, *, follow: bool) -> Iterator[LogLine]:
        """A container that is gone meanwhile has no more lines."""
        options = {name: value for name, value in self._options.items() if value is not None}
        with told_plainly(f"the log of {source.name} cannot be read"):
            try:
                answer = self._core.read_namespaced_pod_log(
                    source.pod,
                    source.namespace,
                    container=source.container,
                    timestamps=True,
                    follow=follow,
                    _preload_content=False,
                    _request_timeout=(10, _READ_SECONDS),
                    **options,
                )
                with closing(answer):
                    for raw in whole_lines(answer.stream(amt=None)):
                        yield parse_line(source.name, raw)
            except client.ApiException as error:
                if error.status not in (400, 404):
                    raise


Arrival = LogLine | UserError | None
"""A line, why a log broke off, or that a log is over."""


def in_order(lines: "queue.SimpleQueue[Arrival]", open_logs: int) -> Iterator[LogLine]:
    """Lines of a queue by time, until as many None as logs have come. Raises the first error of the queue then."""
    waiting, broken = Reordering(_HOLD_SECONDS), None
    while open_logs:
        try:
            line = lines.get(timeout=_HOLD_SECONDS / 2)
        except queue.Empty:
            pass
        else:
            if line is None:
                open_logs -= 1
            elif isinstance(line, UserError):
                broken = broken or line
            else:
                waiting.take(line, time.monotonic())
        yield from waiting.due(time.monotonic())
    yield from waiting.due(float("inf"))
    if broken is not None:
        raise broken


def whole_lines(chunks: Iterator[bytes]) -> Iterator[str]:
    """However they were cut on their way; the last one counts without its end, too."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)
    if rest:
        yield rest.decode(errors="replace")
