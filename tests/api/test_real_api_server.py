"""What a real API server makes of our kinds."""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from kubernetes.client import ApiClient, ApiException, CustomObjectsApi
from tests.api.schema_strategies import documents

from sweyard_api.constants import API_VERSION, GROUP, VERSION
from sweyard_api.image_cache import ImageCacheSpec
from sweyard_api.kinds import KINDS, TRAINING_RUN, Kind
from sweyard_api.phases import PHASES, phased
from sweyard_api.presets import list_presets, load_preset
from sweyard_api.resolve import resolve
from sweyard_api.rollout_pool import RolloutPoolSpec
from sweyard_api.schema import structural_schema
from sweyard_api.training_run import TrainingRunSpec
from sweyard_api.validate import validate_document
from sweyard_api.variables import VARIABLES, with_variables
from sweyard_api.yaml_text import load_document
from sweyard_cluster.errors import ClusterError
from sweyard_cluster.testing import TestCluster

pytestmark = pytest.mark.apiserver

REPOSITORY = Path(__file__).parents[2]
DryRun = Callable[[dict[str, Any]], dict[str, Any]]
SLOW = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def manifest(kind: str, spec: dict[str, Any], name: str = "good") -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def namespace(kinds: TestCluster, request: pytest.FixtureRequest) -> Iterator[str]:
    name = request.node.name.replace("_", "-").split("[")[0][5:45].strip("-")
    kinds.make_namespace(name)
    yield name
    kinds.remove_namespace(name)


@pytest.mark.parametrize("path", sorted((REPOSITORY / "examples").rglob("*.yaml")), ids=lambda path: path.stem)
def test_examples_are_accepted(path: Path, dry_run: DryRun) -> None:
    dry_run(load_document(path.read_text()))


@pytest.mark.parametrize("name", list_presets())
def test_a_preset_written_out_is_accepted(name: str, dry_run: DryRun) -> None:
    preset = load_preset(name).spec
    left_out = {"model": {"name": "org/model"}, "tasks": {"train": {"dataset": "org/train"}}}
    dry_run(manifest("TrainingRun", left_out | preset))


@pytest.mark.parametrize(("preset", "phase"), [(name, phase) for name, phases in PHASES.items() for phase in phases])
def test_a_recipe_in_one_of_its_phases_is_accepted(preset: str, phase: str, dry_run: DryRun) -> None:
    dry_run(manifest("TrainingRun", phased({"preset": preset}, phase)))


@pytest.mark.parametrize("preset", VARIABLES)
def test_a_recipe_with_the_variables_of_its_script_is_accepted(preset: str, dry_run: DryRun) -> None:
    values = {"VLLM_URL": "https://engine.example", "SWE_PDB_CHECKPOINT_BASE": "/data"}
    names = [variable.name for variable in VARIABLES[preset]]
    tasks = {"tasks": {"train": {"dataset": "/data/train.parquet"}}}
    dry_run(
        manifest(
            "TrainingRun", with_variables({"preset": preset, **tasks}, {n: values.get(n, "4") for n in names}).spec
        )
    )


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_explain_has_text_for_every_field(kind: Kind, kinds: TestCluster) -> None:
    schema = json.loads(kinds.kubectl("get", "--raw", f"/openapi/v3/apis/{GROUP}/{VERSION}"))
    served = next(s for n, s in schema["components"]["schemas"].items() if n.endswith(f".{kind.name}"))
    bare: list[str] = []

    def visit(node: dict[str, Any], path: str) -> None:
        for name, child in node.get("properties", {}).items():
            if "description" not in child and not child.get("allOf"):
                bare.append(f"{path}.{name}")
            visit(child, f"{path}.{name}")
        for keyword in ("items", "additionalProperties"):
            if isinstance(node.get(keyword), dict):
                visit(node[keyword], f"{path}[]")

    visit(served, "")
    assert bare == []
    assert "DESCRIPTION" in kinds.kubectl("explain", f"{kind.plural}.spec", "--recursive")


def test_explain_reads_well(kinds: TestCluster) -> None:
    told = " ".join(kinds.kubectl("explain", "trainingrun.spec.rollout").split())
    assert "How attempts are sampled." in told
    assert "groupSize <integer> Attempts at each task. Default: 8 (or the preset's)." in told


def test_a_pool_gets_its_defaults(dry_run: DryRun) -> None:
    stored = dry_run(manifest("RolloutPool", {"template": {}}))["spec"]
    assert stored["replicas"] == 16
    assert stored["maxLifetimeSeconds"] == 7_200
    assert stored["template"]["resources"]["limits"] == {"memory": "4Gi", "ephemeral-storage": "8Gi"}
    assert RolloutPoolSpec.model_validate(stored) == RolloutPoolSpec()


def test_a_cache_gets_its_defaults(dry_run: DryRun) -> None:
    stored = dry_run(manifest("ImageCache", {"images": ["a:1"]}))["spec"]
    assert stored == {
        "images": ["a:1"],
        "copies": "all",
        "maxParallelPullsPerNode": 3,
        "maxParallelPullsPerRegistry": 100,
        "mode": "agent",
    }


def test_a_run_is_stored_as_it_was_written(dry_run: DryRun) -> None:
    spec = {"preset": "tiny", "tasks": {"train": {"dataset": "tiny"}}, "trainer": {"podOverrides": {"hostPID": True}}}
    assert dry_run(manifest("TrainingRun", spec))["spec"] == spec


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"suspend": True}, None),
        ({"restart": {"limit": 9}}, None),
        ({"activeDeadlineSeconds": 60}, None),
        ({"ttlSecondsAfterFinished": 60}, None),
        ({"suspend": True, "queueName": "team"}, None),
        ({"queueName": "team"}, "queueName can change only while suspend is true"),
        ({"suspend": True, "queueName": "team", "workloadPriorityClassName": "high"}, None),
        (
            {"queueName": "team", "workloadPriorityClassName": "high"},
            "workloadPriorityClassName can change only while suspend is true",
        ),
        ({"steps": 5}, "steps cannot change once the run exists"),
        ({"preset": "grpo", "model": {"name": "a/b"}}, "preset cannot change once the run exists"),
        ({"rollout": {"groupSize": 2}}, "rollout cannot change once the run exists"),
        ({"tasks": {"train": {"dataset": "other"}}}, "tasks cannot change once the run exists"),
        ({"optimizer": {"learningRate": 1e-3}}, "optimizer cannot change once the run exists"),
    ],
    ids=lambda value: next(reversed(value)) if isinstance(value, dict) else "",
)
def test_a_live_run_changes_only_where_it_says_so(
    change: dict[str, Any], sentence: str | None, kinds: TestCluster, api_client: ApiClient
) -> None:
    custom_objects = CustomObjectsApi(api_client)
    spec = {"preset": "tiny", "tasks": {"train": {"dataset": "tiny"}}, "optimizer": {"learningRate": 1e-4}}
    where = (GROUP, VERSION, "default", TRAINING_RUN.plural)
    created = custom_objects.create_namespaced_custom_object(
        *where, {**manifest("TrainingRun", spec), "metadata": {"generateName": "live-"}}
    )
    name = created["metadata"]["name"]
    try:
        changed = created | {"spec": spec | change}
        if sentence is None:
            custom_objects.replace_namespaced_custom_object(*where, name, changed, dry_run="All")
        else:
            with pytest.raises(ApiException) as refusal:
                custom_objects.replace_namespaced_custom_object(*where, name, changed, dry_run="All")
            assert sentence in json.loads(refusal.value.body)["message"]
    finally:
        custom_objects.delete_namespaced_custom_object(*where, name)


def test_get_reads_well(kinds: TestCluster, namespace: str) -> None:
    kubectl = kinds.kubectl
    run = manifest("TrainingRun", {"preset": "tiny", "tasks": {"train": {"dataset": "tiny"}}}, "tiny")
    kubectl("-n", namespace, "create", "-f", "-", input_text=json.dumps(run))
    status = {
        "phase": "Running",
        "step": 12,
        "totalSteps": 30,
        "restarts": 1,
        "metrics": {"rewardMean": 0.62, "solvedFraction": 0.5},
        "estimatedRemainingSeconds": 90,
    }
    patch = json.dumps({"status": status})
    kubectl("-n", namespace, "patch", "tr", "tiny", "--subresource=status", "--type=merge", "-p", patch)
    header, row = (line.split() for line in kubectl("-n", namespace, "get", "tr").splitlines())
    assert header == ["NAME", "PHASE", "STEP", "OF", "REWARD", "SOLVED", "LEFT", "RESTARTS", "AGE"]
    assert row[:-1] == ["tiny", "Running", "12", "30", "0.62", "0.5", "90", "1"]


def test_a_run_that_was_made_when_names_could_begin_with_a_digit_goes_on(kinds: TestCluster, namespace: str) -> None:
    def is_taken(*arguments: str, body: dict[str, Any] | None = None) -> bool:
        try:
            kinds.kubectl("-n", namespace, *arguments, input_text=json.dumps(body) if body else None)
        except ClusterError:
            return False
        return True

    def make(name: str) -> bool:
        spec = {"preset": "tiny", "tasks": {"train": {"dataset": "tiny"}}}
        return is_taken("create", "-f", "-", body=manifest("TrainingRun", spec, name))

    rule = "/spec/versions/0/schema/openAPIV3Schema/x-kubernetes-validations/1"
    removal = json.dumps([{"op": "remove", "path": rule}])
    kinds.kubectl("patch", "crd", "trainingruns.sweyard.dev", "--type=json", "-p", removal)
    numbers = itertools.count()
    try:
        made = next(name for name in (f"7b-{number}" for number in numbers) if make(name))
        status = ("patch", "tr", made, "--subresource=status", "--type=merge", "-p")
        assert is_taken(*status, json.dumps({"status": {"phase": "Pending"}}))
    finally:
        kinds.install_kinds(REPOSITORY / "crds" / "trainingruns.yaml")
    next(number for number in numbers if not make(f"7b-{number}"))
    assert is_taken(*status, json.dumps({"status": {"phase": "Running"}}))
    assert is_taken("patch", "tr", made, "--type=merge", "-p", json.dumps({"spec": {"suspend": True}}))


def test_short_names_and_category(kinds: TestCluster, namespace: str) -> None:
    kubectl = kinds.kubectl
    for kind, spec in (("RolloutPool", {}), ("ImageCache", {"images": ["a:1"]})):
        kubectl("-n", namespace, "create", "-f", "-", input_text=json.dumps(manifest(kind, spec, "shared")))
    assert kubectl("-n", namespace, "get", "rp,ic", "-o", "name").split() == [
        "rolloutpool.sweyard.dev/shared",
        "imagecache.sweyard.dev/shared",
    ]
    assert set(kubectl("-n", namespace, "get", "sweyard", "-o", "name").split()) == {
        "rolloutpool.sweyard.dev/shared",
        "imagecache.sweyard.dev/shared",
    }


def test_a_pool_scales(kinds: TestCluster, namespace: str) -> None:
    kubectl = kinds.kubectl
    warm = {"warm": [{"image": "a:1", "replicas": 8}]}
    kubectl("-n", namespace, "create", "-f", "-", input_text=json.dumps(manifest("RolloutPool", warm, "pool")))
    for replicas in (0, 64):
        kubectl("-n", namespace, "scale", "rp/pool", f"--replicas={replicas}")
    status = json.dumps({"status": {"replicas": 7, "selector": "sweyard.dev/pool=pool"}})
    kubectl("-n", namespace, "patch", "rp", "pool", "--subresource=status", "--type=merge", "-p", status)
    scale = json.loads(
        kubectl("get", "--raw", f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/rolloutpools/pool/scale")
    )
    assert scale["spec"] == {"replicas": 64}
    assert scale["status"] == {"replicas": 7, "selector": "sweyard.dev/pool=pool"}


def specs(model: type[Any]) -> st.SearchStrategy[dict[str, Any]]:
    schema = model.model_json_schema()
    return documents(schema, schema.get("$defs", {}))


@SLOW
@given(spec=specs(RolloutPoolSpec))
def test_pools_are_judged_alike_with_and_without_a_cluster(spec: dict[str, Any], dry_run: DryRun) -> None:
    _judged_alike(manifest("RolloutPool", spec), dry_run)


@SLOW
@given(spec=specs(ImageCacheSpec))
def test_caches_are_judged_alike_with_and_without_a_cluster(spec: dict[str, Any], dry_run: DryRun) -> None:
    _judged_alike(manifest("ImageCache", spec), dry_run)


def _judged_alike(document: dict[str, Any], dry_run: DryRun) -> None:
    here = [str(problem) for problem in validate_document(document)]
    there = _refusal(document, dry_run)
    assert bool(here) == (there is not None), (here, there)


def _refusal(document: dict[str, Any], dry_run: DryRun) -> str | None:
    try:
        dry_run(document)
    except ApiException as refusal:
        message: str = json.loads(refusal.body)["message"]
        return message
    return None


WRITTEN_OUT = ("preset", "model", "tasks")
SECTIONS = [
    name for name in structural_schema(TrainingRunSpec)["properties"] if name not in ("preset", "model", "tasks")
]


@SLOW
@given(data=st.data())
def test_every_run_that_resolves_is_accepted_as_written_and_as_resolved(data: st.DataObject, dry_run: DryRun) -> None:
    schema = TrainingRunSpec.model_json_schema()
    chosen = data.draw(st.lists(st.sampled_from(SECTIONS), max_size=3, unique=True))
    sections = {name: data.draw(documents(schema["properties"][name], schema["$defs"])) for name in chosen}
    spec = {"model": {"name": "org/model"}, "tasks": {"train": {"dataset": "tiny"}}} | sections
    document = manifest("TrainingRun", spec)
    assume(not validate_document(document))
    dry_run(document)
    whole = resolve(spec)
    assume(whole.sandboxes.pool_ref is None and whole.images.cache_ref is None and whole.storage.claim_name is None)
    dry_run(manifest("TrainingRun", whole.model_dump(mode="json", by_alias=True, exclude_none=True)))
