"""Default deny for every component of a run, and only the arrows of the picture."""

from typing import Any
from urllib.parse import urlsplit

from sweyard_api import colocated
from sweyard_api.constants import (
    ENGINE_PORT,
    GATEWAY_ADMIN_PORT,
    GATEWAY_PORT,
    LABEL_COMPONENT,
    LABEL_POOL,
    engine_name,
    gateway_name,
    trainer_name,
)
from sweyard_api.training_run import TrainingRunSpec
from sweyard_operator.build.datasets import has_hub_dataset
from sweyard_operator.build.run_context import (
    COMPONENT_ENGINE,
    COMPONENT_GATEWAY,
    COMPONENT_SANDBOX,
    COMPONENT_TRAINER,
    RunContext,
    RunSettings,
    owned_metadata,
    pod_selector,
)
from sweyard_operator.resources import Manifest

Rule = dict[str, Any]

_HTTPS_PORT = 443
_DNS_PORT = 53
_PRIVATE_V4 = ["10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"]
_PRIVATE_V6 = ["fc00::/7", "fe80::/10"]


def build_network_policies(run: RunContext, settings: RunSettings) -> list[Manifest]:
    """One policy for each component that has pods."""
    policies = [_build_trainer_policy(run, settings)]
    if run.has_gateway:
        policies.append(_build_gateway_policy(run))
    if run.has_engines:
        policies.append(_build_engine_policy(run))
    return policies


def _build_trainer_policy(run: RunContext, settings: RunSettings) -> Manifest:
    ranks = _pods(run, COMPONENT_TRAINER)
    # Ray and NCCL choose their ports; among the ranks of one run all are open.
    ingress: list[Rule] = [{"from": [ranks]}]
    egress: list[Rule] = [
        {"to": [ranks]},
        _dns(),
        *_api_server(settings),
    ]
    if run.has_gateway:
        egress.append({"to": [_pods(run, COMPONENT_GATEWAY)], "ports": _tcp(GATEWAY_PORT, GATEWAY_ADMIN_PORT)})
    if run.has_engines:
        egress.append({"to": [_pods(run, COMPONENT_ENGINE)], "ports": _tcp(ENGINE_PORT)})
    if run.has_engines and run.config.inference.weight_sync == "nccl":  # chooses its ports
        ingress.append({"from": [_pods(run, COMPONENT_ENGINE)]})
        egress.append({"to": [_pods(run, COMPONENT_ENGINE)]})
    if run.has_gateway and run.config.inference.placement == "colocated":
        ingress.append({"from": [_pods(run, COMPONENT_GATEWAY)], "ports": _engine_ports(run.config)})
    if run.makes_attempts and run.config.inference.placement == "external":
        egress.append(_anywhere(run.config.inference.url))
    if run.makes_attempts and run.config.logging.trace_endpoint:
        egress.append(_anywhere(run.config.logging.trace_endpoint))
    if needs_internet(run.config):
        egress.append(_internet())
    return _policy(run, trainer_name(run.name), COMPONENT_TRAINER, ingress, egress)


def _build_gateway_policy(run: RunContext) -> Manifest:
    sandboxes = {"podSelector": {"matchLabels": {LABEL_POOL: run.pool, LABEL_COMPONENT: COMPONENT_SANDBOX}}}
    trainer = _pods(run, COMPONENT_TRAINER)
    ingress: list[Rule] = [
        {"from": [sandboxes], "ports": _tcp(GATEWAY_PORT)},
        {"from": [trainer], "ports": _tcp(GATEWAY_PORT, GATEWAY_ADMIN_PORT)},
    ]
    placement = run.config.inference.placement
    engines = {"separate": COMPONENT_ENGINE, "colocated": COMPONENT_TRAINER}
    egress: list[Rule] = [_dns()]
    if _is_hub_model(run.config):
        egress.append(_internet())
    if placement in engines:
        egress.append({"to": [_pods(run, engines[placement])], "ports": _engine_ports(run.config)})
    else:
        egress.append(_anywhere(run.config.inference.url))
    return _policy(run, gateway_name(run.name), COMPONENT_GATEWAY, ingress, egress)


def _build_engine_policy(run: RunContext) -> Manifest:
    trainer = _pods(run, COMPONENT_TRAINER)
    clients = [trainer, _pods(run, COMPONENT_GATEWAY)]
    ingress: list[Rule] = [{"from": clients, "ports": _tcp(ENGINE_PORT)}]
    egress: list[Rule] = [_dns(), _internet()] if _is_hub_model(run.config) else []
    if run.config.inference.weight_sync == "nccl":
        ingress.append({"from": [trainer]})
        egress += [_dns(), {"to": [trainer]}]
    if run.config.inference.pods_per_engine > 1:  # its pods choose their ports
        ingress.append({"from": [_pods(run, COMPONENT_ENGINE)]})
        egress += [_dns(), {"to": [_pods(run, COMPONENT_ENGINE)]}]
    return _policy(run, engine_name(run.name), COMPONENT_ENGINE, ingress, egress)


def _engine_ports(config: TrainingRunSpec) -> list[dict[str, Any]]:
    """One to a pod, except of engines that share the trainer's."""
    return _tcp(*(colocated.engine_ports(config) if config.inference.placement == "colocated" else [ENGINE_PORT]))


def needs_internet(config: TrainingRunSpec) -> bool:
    """Whether the trainer fetches a model or tasks from the hub, or sends its metrics or checkpoints away."""
    sends = config.logging.wandb is not None or config.checkpoint.url is not None
    return _is_hub_model(config) or has_hub_dataset(config) or sends


def _is_hub_model(config: TrainingRunSpec) -> bool:
    name = config.model.name
    return name is not None and not name.startswith((".", "/"))


def _policy(run: RunContext, name: str, component: str, ingress: list[Rule], egress: list[Rule]) -> Manifest:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": owned_metadata(run, name, component),
        "spec": {
            "podSelector": {"matchLabels": pod_selector(run, component)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress,
        },
    }


def _pods(run: RunContext, component: str) -> Rule:
    return {"podSelector": {"matchLabels": pod_selector(run, component)}}


def _tcp(*ports: int) -> list[Rule]:
    return [{"protocol": "TCP", "port": port} for port in ports]


def _dns() -> Rule:
    """The cluster's DNS, wherever it runs: a node-local cache is not a pod that a selector could name."""
    return {"ports": [{"protocol": protocol, "port": _DNS_PORT} for protocol in ("UDP", "TCP")]}


def _api_server(settings: RunSettings) -> list[Rule]:
    return [
        {"to": [{"ipBlock": {"cidr": _host_cidr(endpoint.address)}}], "ports": _tcp(endpoint.port)}
        for endpoint in settings.api_server
    ]


def _host_cidr(address: str) -> str:
    return f"{address}/128" if ":" in address else f"{address}/32"


def _internet() -> Rule:
    """HTTPS to public addresses; a registry mirror inside the cluster needs a policy of the user's own."""
    blocks = [
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": _PRIVATE_V4}},
        {"ipBlock": {"cidr": "::/0", "except": _PRIVATE_V6}},
    ]
    return {"to": blocks, "ports": _tcp(_HTTPS_PORT)}


def _anywhere(url: str | None) -> Rule:
    """The port of an external engine or a collector, at any address: policies do not know host names."""
    return {"ports": _tcp(_url_port(url or ""))}


def _url_port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (_HTTPS_PORT if parts.scheme == "https" else 80)
