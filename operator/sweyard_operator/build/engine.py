"""The inference engines: vLLM, in pods with names that last; one pod each, or as many as inference.podsPerEngine says.

Of an engine that spans pods the first pod serves, and the others hold their part of the model for it. They find it by
its name, and it ends when one of them does.
"""

import math
from typing import Any

from sweyard_api.constants import ENGINE_PORT, STORAGE_MOUNT_PATH, engine_name
from sweyard_api.engine_command import ENGINE_START, HEADLESS, engine_arguments, engine_environment
from sweyard_api.engine_program import LAST_WORDS_VARIABLE
from sweyard_operator.build.pod_template import PodShape, build_pod_name_env, build_pod_template
from sweyard_operator.build.run_context import COMPONENT_ENGINE, RunContext, RunSettings, owned_metadata, pod_selector
from sweyard_operator.resources import Manifest

CONTAINER_ENGINE = "engine"
MODEL_PATH = f"{STORAGE_MOUNT_PATH}/model"
_TERMINATION_LOG = "/dev/termination-log"
_STARTUP_PERIOD_SECONDS = 5
_GROUP_PORT = 29_501
"""Of the pod that serves: each worker of its engine keeps a connection to it for as long as it lives."""
_FIND_LEADER = """
ordinal=${SWEYARD_POD_NAME##*-}
rank=$((ordinal % SWEYARD_PODS_PER_ENGINE))
leader=${SWEYARD_POD_NAME%-*}-$((ordinal - rank)).$SWEYARD_ENGINE_SERVICE
"""
"""Shell: which pod of its engine this is, and where the first one is."""
_START = f"""{_FIND_LEADER}
if [ $rank != 0 ]; then
  set -- "$@" {HEADLESS}
  while $1 -c "import socket; socket.create_connection(('$leader', {ENGINE_PORT}), 4)" 2>/dev/null; do sleep 1; done
fi
exec "$@" --nnodes $SWEYARD_PODS_PER_ENGINE --node-rank $rank --master-addr $leader --master-port {_GROUP_PORT}
"""
"""A server that serves already does so with a worker that has ended: it is not joined, and its probe ends it."""
_ASK = f"""{_FIND_LEADER}
members=0
[ $rank != 0 ] || members=$SWEYARD_PODS_PER_ENGINE
exec "$1" -c "$2" http://$leader:{ENGINE_PORT}/health $members "$3"
"""
_PROBE = f"""\
import contextlib, ipaddress, os, pathlib, socket, sys, time, urllib.request

url, num_members, patience = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
try:
    urllib.request.urlopen(url, timeout=patience)
except OSError as error:
    is_refused = isinstance(getattr(error, "reason", error), ConnectionRefusedError)
    time.sleep(0 if is_refused else patience)
    raise

def read_address(told):
    words = bytes.fromhex(told.rpartition(":")[0])
    address = ipaddress.ip_address(b"".join(words[at:at + 4][::-1] for at in range(0, len(words), 4)))
    return str(getattr(address, "ipv4_mapped", None) or address)

lines = [line for table in pathlib.Path("/proc/net").glob("tcp*") for line in table.read_text().splitlines()]
members = {{
    read_address(remote) for _, local, remote, state, *_ in map(str.split, lines)
    if state == "01" and local.endswith(":{_GROUP_PORT:04X}")
}}
if len(members) < num_members:
    sys.exit(f"of {{num_members}} pods {{len(members)}} are connected")
engine, _, ordinal = os.environ["SWEYARD_POD_NAME"].rpartition("-")
for number in range(1, num_members):
    name = f"{{engine}}-{{int(ordinal) + number}}.{{os.environ['SWEYARD_ENGINE_SERVICE']}}"
    with contextlib.suppress(socket.gaierror):
        addresses = {{told[4][0] for told in socket.getaddrinfo(name, None)}}
        if not addresses & members:
            sys.exit(f"{{name}} is another pod now")
"""
"""Whether an engine serves, asked by any of its pods, and, by the one that serves, whether it still has the others:
vLLM itself would wait for ever for one that ended between two requests, and its connection to one whose node was lost
stands as long as nothing is sent: the pod that follows has another address. A server that is busy, out of reach or
unknown to the cluster's DNS has twice so many seconds; one that has ended is known at once, by its pod that refuses to
connect.
"""


def engine_pods(run: RunContext, num_engines: int) -> int:
    """Pods that so many engines have."""
    return num_engines * run.config.inference.pods_per_engine


def build_engine_service(run: RunContext) -> Manifest:
    """Headless Service: each engine is addressed by itself, ready or not, since each must confirm its weights."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": owned_metadata(run, engine_name(run.name), COMPONENT_ENGINE),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": pod_selector(run, COMPONENT_ENGINE),
            "ports": [{"name": "http", "port": ENGINE_PORT}],
        },
    }


def build_engines(run: RunContext, settings: RunSettings, count: int | None = None) -> Manifest:
    """StatefulSet of so many engines (None: as many as there may be); all pods start at once, for engines do not wait
    for each other, and pods of one do."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": owned_metadata(run, engine_name(run.name), COMPONENT_ENGINE),
        "spec": {
            "serviceName": engine_name(run.name),
            "replicas": engine_pods(run, run.config.inference.replicas if count is None else count),
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": pod_selector(run, COMPONENT_ENGINE)},
            "template": build_pod_template(run, settings, _build_shape(run, settings)),
        },
    }


def _build_shape(run: RunContext, settings: RunSettings) -> PodShape:
    options = run.config.inference
    arguments = engine_arguments(run.config, MODEL_PATH, ENGINE_PORT)
    environment = {**engine_environment(run.config), LAST_WORDS_VARIABLE: _TERMINATION_LOG}
    return PodShape(
        component=COMPONENT_ENGINE,
        options=options,
        prepares_model=True,
        spec={"terminationGracePeriodSeconds": 15},
        container={
            "name": CONTAINER_ENGINE,
            "image": settings.image(options.image),
            "command": _build_command(run, settings.python, arguments),
            "env": [*({"name": name, "value": value} for name, value in environment.items()), *_build_place(run)],
            "ports": [{"name": "http", "containerPort": ENGINE_PORT}],
            **_build_probes(run, settings.python),
        },
    )


def _build_command(run: RunContext, python: str, arguments: list[str]) -> list[str]:
    one = [python, *ENGINE_START, *arguments]
    return one if run.config.inference.pods_per_engine == 1 else ["sh", "-c", _START, "engine", *one]


def _build_place(run: RunContext) -> list[dict[str, Any]]:
    """What a pod of an engine that spans pods goes by."""
    pods = run.config.inference.pods_per_engine
    if pods == 1:
        return []
    values = {"SWEYARD_PODS_PER_ENGINE": str(pods), "SWEYARD_ENGINE_SERVICE": engine_name(run.name)}
    return [build_pod_name_env(), *({"name": name, "value": value} for name, value in values.items())]


def _build_probes(run: RunContext, python: str) -> dict[str, Any]:
    options = run.config.inference
    failures = math.ceil(options.startup_deadline_seconds / _STARTUP_PERIOD_SECONDS)
    return {
        # Liveness begins only once this has passed, so that no engine is killed while it loads.
        "startupProbe": {
            **_build_probe(run, python, timeout_seconds=5),
            "periodSeconds": _STARTUP_PERIOD_SECONDS,
            "failureThreshold": failures,
        },
        "readinessProbe": {**_build_probe(run, python, timeout_seconds=5), "periodSeconds": 5},
        # Minutes, since a weight sync may hold the server's loop for long.
        "livenessProbe": (
            {**_build_probe(run, python, timeout_seconds=5), "periodSeconds": 30, "failureThreshold": 10}
            if options.pods_per_engine == 1
            # The same, but soon where another pod has ended.
            else {**_build_probe(run, python, timeout_seconds=100), "periodSeconds": 10, "failureThreshold": 3}
        ),
    }


def _build_probe(run: RunContext, python: str, *, timeout_seconds: int) -> dict[str, Any]:
    asked: dict[str, Any] = {"httpGet": {"path": "/health", "port": "http"}}
    if run.config.inference.pods_per_engine > 1:
        patience_seconds = 0.4 * timeout_seconds
        asked = {"exec": {"command": ["sh", "-c", _ASK, "probe", python, _PROBE, f"{patience_seconds:g}"]}}
    return {**asked, "timeoutSeconds": timeout_seconds}
