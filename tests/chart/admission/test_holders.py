"""Which Leases, demand and sandboxes a holder may write: those of its own name, whatever kind of account it is."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.chart.admission.accounts import (
    CONFIG_MAPS,
    LEASES,
    POD,
    Account,
    Create,
    RefusedError,
    claim,
    demand,
    lease,
)

pytestmark = pytest.mark.apiserver


@pytest.mark.parametrize(("collection", "make"), [(LEASES, lease), (CONFIG_MAPS, demand)], ids=["Lease", "demand"])
def test_a_holder_keeps_objects_of_its_own_name(
    collection: str, make: Callable[..., dict[str, Any]], trainer: Account
) -> None:
    for name in (POD, f"{POD}-1"):
        made = json.loads(trainer.call("POST", collection, make(name)))
        trainer.call("PUT", f"{collection}/{name}", made)
        trainer.call("DELETE", f"{collection}/{name}")


@pytest.mark.parametrize(
    ("collection", "manifest", "sentence"),
    [
        (LEASES, lease("another"), "only Leases and demand of its own name"),
        (LEASES, lease(POD, labels={}), "must carry the label sweyard.dev/pool"),
        (CONFIG_MAPS, demand("tiny-config"), "only Leases and demand of its own name"),
        (CONFIG_MAPS, demand(f"{POD}-config"), "only Leases and demand of its own name"),
        (CONFIG_MAPS, demand(POD, labels={}), "must carry the label sweyard.dev/pool"),
    ],
    ids=["another's Lease", "Lease without a pool", "a run's config", "look-alike", "demand without a pool"],
)
def test_a_holder_makes_no_other_objects(
    collection: str, manifest: dict[str, Any], sentence: str, trainer: Account
) -> None:
    with pytest.raises(RefusedError, match=sentence):
        trainer.call("POST", collection, manifest)


def test_a_holder_spoils_nobodys_config_or_lease(trainer: Account, create: Create) -> None:
    create(demand("other-config"))
    create(lease("other-holder"))
    for path, change in ((f"{CONFIG_MAPS}/other-config", "/data"), (f"{LEASES}/other-holder", "/spec")):
        with pytest.raises(RefusedError, match="of its own name"):
            trainer.patch(path, [{"op": "replace", "path": change, "value": {}}])
        with pytest.raises(RefusedError, match="of its own name"):
            trainer.call("DELETE", path)


def test_outside_a_pod_the_holder_is_the_account(outsider: Account, sandbox: Callable[..., str]) -> None:
    path = sandbox("")
    with pytest.raises(RefusedError, match="the holder must be notebook or notebook-<n>"):
        outsider.patch(path, claim(POD))
    outsider.patch(path, claim("notebook-7"))
    outsider.call("DELETE", path)


def test_an_administrator_is_not_held_to_it(administrator: Account, sandbox: Callable[..., str]) -> None:
    path = sandbox("another")
    administrator.patch(path, [{"op": "add", "path": "/metadata/labels/more", "value": "x"}])
    administrator.call("DELETE", path)
    administrator.call("POST", CONFIG_MAPS, demand("anything", labels={}))
