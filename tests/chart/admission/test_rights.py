"""The tables of docs/security.md, entry by entry, each asked with the account's own token."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.chart.admission.accounts import NAMESPACE, Account
from tests.chart.conftest import RELEASE

from sweyard_cluster.testing import TestCluster

pytestmark = pytest.mark.apiserver

PAGE = (Path(__file__).parents[3] / "docs" / "security.md").read_text()
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
CLUSTER_WIDE = ("ClusterRole", "ClusterRoleBinding")
WITH_PAGE = ("--set", "ui.enabled=true,ui.tokenSecret=token")


def entries(heading: str) -> Iterator[tuple[str, str, str]]:
    """Account, verb and resource of each entry below a heading."""
    section = re.split(r"^## ", PAGE.split(f"## {heading}\n")[1], flags=re.MULTILINE)[0]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[0] in ("operator", "trainer", "cache agent", "page"):
            yield from ((cells[0], verb, on) for verb in cells[1].split(", ") for on in cells[2].split(", "))


@pytest.fixture(scope="session")
def bound(governed: TestCluster, helm: Callable[..., str], account: Callable[..., Account]) -> Callable[[str], Account]:
    """An account of this namespace in the place of one of the chart's, in the whole cluster as the chart binds that."""
    manifests = [one for one in yaml.safe_load_all(helm("template", *RELEASE, *WITH_PAGE)) if one]
    wide = [one for one in manifests if one["kind"] in CLUSTER_WIDE]

    def make(name: str) -> Account:
        made = account(f"{name}-under-test")
        subject = {"kind": "ServiceAccount", "name": f"{name}-under-test", "namespace": NAMESPACE}
        bindings = [one for one in wide if any(to["name"] == name for to in one.get("subjects", ()))]
        assert bindings
        roles = {binding["roleRef"]["name"] for binding in bindings}
        for one in wide:
            if one in bindings:
                renamed = {"metadata": {"name": f"tests-{one['metadata']['name']}"}, "subjects": [subject]}
                governed.kubectl("apply", "-f", "-", input_text=json.dumps({**one, **renamed}))
            elif one["metadata"]["name"] in roles:
                governed.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input_text=json.dumps(one))
        return made

    return make


@pytest.fixture(scope="session")
def accounts(
    bound: Callable[[str], Account], trainer: Account, account: Callable[..., Account]
) -> Mapping[str, Account]:
    return {
        "operator": bound("sweyard-operator"),
        "trainer": trainer,
        "cache agent": account("rights-cache-agent", "sweyard-cache-agent"),
        "page": bound("sweyard-ui"),
    }


def is_allowed(account: Account, verb: str, on: str) -> bool:
    name, _, subresource = on.partition("/")
    resource, _, group = name.partition(".")
    attributes = {"namespace": NAMESPACE, "verb": verb, "group": group, "resource": resource}
    review: dict[str, Any] = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    review["spec"] = {"resourceAttributes": attributes | {"subresource": subresource}}
    return bool(json.loads(account.call("POST", REVIEWS, review))["status"]["allowed"])


@pytest.mark.parametrize(
    ("heading", "allowed"), [("What each account may do", True), ("What each account may not", False)]
)
def test_every_entry_of_the_page_is_true(heading: str, allowed: bool, accounts: Mapping[str, Account]) -> None:
    found = list(entries(heading))
    assert {account for account, _, _ in found} == accounts.keys()
    wrong = [entry for entry in found if is_allowed(accounts[entry[0]], *entry[1:]) != allowed]
    assert wrong == []
