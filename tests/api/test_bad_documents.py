"""Every mistake of the table is refused, with the sentence that the table says."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import ApiException

from sweyard_api.constants import API_VERSION
from sweyard_api.validate import validate_document
from sweyard_api.yaml_text import load_document

KIND_OF = {"training_runs": "TrainingRun", "rollout_pools": "RolloutPool", "image_caches": "ImageCache"}


TABLE = load_document(Path(__file__).with_name("bad_documents.yaml").read_text())
ROWS = [
    pytest.param(kind, row, id=f"{kind}: {row['id']}") for section, kind in KIND_OF.items() for row in TABLE[section]
]


def manifest(kind: str, row: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "bad"}
    return row.get("document") or {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": row["spec"]}


@pytest.mark.parametrize(("kind", "row"), ROWS)
def test_validate_names_the_field_and_the_remedy(kind: str, row: dict[str, Any]) -> None:
    problems = validate_document(manifest(kind, row))
    told = [str(problem) for problem in problems if problem.field == row["field"]]
    assert any(row["says"] in sentence for sentence in told), [str(problem) for problem in problems]


@pytest.mark.apiserver
@pytest.mark.parametrize(("kind", "row"), ROWS)
def test_the_api_server_refuses_what_it_can_know(
    kind: str, row: dict[str, Any], dry_run: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    document = manifest(kind, row)
    if row["server"] is None:
        dry_run(document)
        return
    with pytest.raises(ApiException) as refusal:
        dry_run(document)
    assert row["server"] in json.loads(refusal.value.body)["message"]
