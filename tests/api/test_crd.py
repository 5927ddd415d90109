"""The generated CustomResourceDefinitions: up to date, complete, and faithful to the models."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sweyard_api.crd import TARGETS, build_crd, generated_files, main
from sweyard_api.crd_rules import LIVE_FIELDS, QUEUE_FIELDS
from sweyard_api.kinds import KINDS, TRAINING_RUN, Kind
from sweyard_api.presets import list_presets

REPOSITORY = Path(__file__).parents[2]


@cache
def root_schema(kind: Kind) -> dict[str, Any]:
    (version,) = build_crd(kind)["spec"]["versions"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield from nodes(schema[keyword], f"{path}[]")


@cache
def files_of_the_models() -> dict[str, str]:
    return generated_files()


@pytest.mark.parametrize("folder", TARGETS, ids=str)
@pytest.mark.parametrize("name", [f"{kind.plural}.yaml" for kind in KINDS])
def test_committed_files_are_what_the_models_say(folder: Path, name: str) -> None:
    assert (REPOSITORY / folder / name).read_text() == files_of_the_models()[name]


def test_check_reports_a_stale_file_and_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([]) == 0
    assert main(["--check"]) == 0
    stale = tmp_path / "crds" / "rolloutpools.yaml"
    stale.write_text("old")
    capsys.readouterr()
    assert main(["--check"]) == 1
    assert capsys.readouterr().out == "crds/rolloutpools.yaml is out of date: run `make crds`\n"
    assert stale.read_text() == "old"


def test_no_number_of_a_run_is_without_bounds() -> None:
    """What has none overflows somewhere: a date, a float32, a C library."""
    numbers = {
        path: node
        for path, node in nodes(root_schema(TRAINING_RUN)["properties"]["spec"])
        if node.get("type") in ("integer", "number") and not path.endswith(".tolerationSeconds")  # Kubernetes' own
    }
    assert numbers
    assert [path for path, node in numbers.items() if not {"minimum", "maximum"} <= node.keys()] == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_field_has_a_description(kind: Kind) -> None:
    schema = root_schema(kind)
    bare = [
        f"{path}.{name}"
        for path, node in nodes(schema)
        for name, child in node.get("properties", {}).items()
        if "description" not in child and (path, name) != ("", "metadata")
    ]
    assert bare == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_rule_has_a_sentence(kind: Kind) -> None:
    rules = [rule for _, node in nodes(root_schema(kind)) for rule in node.get("x-kubernetes-validations", ())]
    assert rules
    assert [rule for rule in rules if not rule["message"]] == []


def test_a_runs_spec_has_no_defaults_that_would_beat_a_preset() -> None:
    spec = root_schema(TRAINING_RUN)["properties"]["spec"]
    assert [path for path, node in nodes(spec) if "default" in node] == []
    assert spec["properties"]["rollout"]["properties"]["groupSize"]["description"].endswith(
        "Default: 8 (or the preset's)."
    )


def test_nothing_that_a_preset_may_set_is_required() -> None:
    spec = root_schema(TRAINING_RUN)["properties"]["spec"]
    required = [path for path, node in nodes(spec) if "required" in node]
    assert required
    assert all("[]" in path for path in required)


def test_presets_are_an_enumeration() -> None:
    assert root_schema(TRAINING_RUN)["properties"]["spec"]["properties"]["preset"]["enum"] == list_presets()


def test_every_field_of_a_run_says_whether_it_may_change() -> None:
    fields = root_schema(TRAINING_RUN)["properties"]["spec"]["properties"]
    for name, field in fields.items():
        expected = "May change at any time." if name in LIVE_FIELDS else "Cannot change once the run exists."
        expected = "May change while suspended." if name in QUEUE_FIELDS else expected
        assert field["description"].endswith(expected), name


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_columns_read_fields_that_exist(kind: Kind) -> None:
    properties = root_schema(kind)["properties"]
    for column in kind.columns:
        section, name, *rest = column.path.removeprefix(".").split("[")[0].split(".")
        assert section == "metadata" or name in properties[section]["properties"], column.path
        if rest:
            assert properties[section]["properties"][name]["type"] == "object", column.path


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_conditions_are_a_map_by_type(kind: Kind) -> None:
    conditions = root_schema(kind)["properties"]["status"]["properties"]["conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    assert set(conditions["items"]["required"]) == {"type", "status", "reason", "message", "lastTransitionTime"}
