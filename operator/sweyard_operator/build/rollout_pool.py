"""The run's own pool of sandboxes."""

from sweyard_api.constants import API_VERSION
from sweyard_operator.build.image_cache import cache_name
from sweyard_operator.build.run_context import COMPONENT_SANDBOX, RunContext, owned_metadata
from sweyard_operator.resources import Manifest


def build_rollout_pool(run: RunContext) -> Manifest | None:
    """RolloutPool named like the run; None where a shared pool is used or sandboxes are not pods."""
    if not run.owns_pool:
        return None
    spec = run.config.sandboxes.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude={"pool_ref", "runtime"}
    )
    template = spec["template"]
    if not template["imagePullSecrets"]:
        # What a node does not hold its kubelet pulls, and from the same registries.
        template["imagePullSecrets"] = list(run.config.images.pull_secrets)
    cache = cache_name(run)
    if cache is not None:
        spec.setdefault("imageCacheRef", cache)
    choice = run.choice(COMPONENT_SANDBOX)
    template["nodeSelector"] |= choice.node_selector
    template["tolerations"] += choice.tolerations
    template["labels"] |= choice.labels
    template["annotations"] |= choice.annotations
    return {"apiVersion": API_VERSION, "kind": "RolloutPool", "metadata": owned_metadata(run, run.name), "spec": spec}
