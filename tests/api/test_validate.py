"""`sweyard validate` on files, without a cluster."""

from pathlib import Path

import pytest

from sweyard_api.constants import API_VERSION
from sweyard_api.validate import validate_document, validate_file, validate_text
from sweyard_api.yaml_text import load_documents

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = sorted((REPOSITORY / "examples").rglob("*.yaml"))
OURS = "apiVersion: sweyard.dev/v1alpha1"
POOL = "apiVersion: sweyard.dev/v1alpha1\nkind: RolloutPool\nmetadata: {name: pool}\nspec: {replicas: -1}\n"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_examples_are_valid(path: Path) -> None:
    assert validate_file(path) == []


def test_the_demo_is_short() -> None:
    assert len((REPOSITORY / "examples/tiny/trainingrun.yaml").read_text().splitlines()) <= 15


def test_a_problem_names_file_document_and_field(tmp_path: Path) -> None:
    path = tmp_path / "pool.yaml"
    path.write_text(POOL)
    (problem,) = validate_file(path)
    assert str(problem) == f"{path}: RolloutPool pool: spec.replicas is -1: must be at least 0"


def test_every_document_is_looked_at() -> None:
    problems = validate_text(f"{POOL}---\n{POOL.replace('name: pool', 'name: other')}", file="f")
    assert [problem.document for problem in problems] == ["RolloutPool pool", "RolloutPool other"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the file is empty"),
        ("a: [", "a bracket is not closed"),
        (
            "{apiVersion: v1, kind: Pod}\n--- {apiVersion: v1}",
            "no TrainingRun, RolloutPool, ImageCache, only Pod, no kind",
        ),
        ("- a", "must be a mapping with apiVersion, kind, metadata and spec"),
        (f"{{{OURS}, kind: Trainingrun, metadata: {{name: a}}, spec: {{}}}}", "did you mean TrainingRun"),
        ("{apiVersion: sweyard.dev/v1, kind: ImageCache}", "must be sweyard.dev/v1alpha1"),
        (f"{{{OURS}, kind: ImageCache, metadata: {{}}, spec: {{}}}}", "metadata.name: is required"),
        (f"{{{OURS}, kind: ImageCache, metadata: {{name: a}}, spec: []}}", "must be a mapping"),
    ],
    ids=["empty", "no YAML", "others", "list", "misspelt kind", "other version", "no name", "spec is a list"],
)
def test_what_is_no_manifest_of_ours_is_told(text: str, sentence: str) -> None:
    assert any(sentence in str(problem) for problem in validate_text(text, file="f"))


METADATA = {
    "no mapping": ("[a]", "metadata: must be a mapping"),
    "a number for a name": ("{name: 3}", "metadata.name is 3: must be a string (put it in quotes)"),
    "a name of another line": (r'{name: "a\n"}', "the name of an ImageCache"),
    "a list for a namespace": ("{name: a, namespace: [b]}", "metadata.namespace: must be lower-case letters"),
    "capitals in a namespace": ("{name: a, namespace: B}", "metadata.namespace is 'B': must be lower-case letters"),
    "a number for labels": ("{name: a, labels: 3}", "metadata.labels is 3: must be a mapping of strings"),
    "a number for a label": ("{name: a, labels: {b: 3}}", "metadata.labels.b is 3: must be a string"),
    "a misspelt field": ("{name: a, lables: {}}", "metadata.lables: there is no such field; did you mean labels?"),
}


@pytest.mark.parametrize(("metadata", "sentence"), METADATA.values(), ids=METADATA)
def test_metadata_is_checked_too(metadata: str, sentence: str) -> None:
    problems = validate_text(f"{{{OURS}, kind: ImageCache, metadata: {metadata}, spec: {{}}}}", file="f")
    assert any(sentence in str(problem) for problem in problems), list(map(str, problems))


def test_what_a_file_says_is_told_in_one_line_whatever_is_in_its_names() -> None:
    text = f'{{{OURS}, kind: "Image\\nCache", metadata: {{name: "a\\n"}}, spec: {{"b\\nc": 1}}}}'
    other = f'{{{OURS}, kind: ImageCache, metadata: {{name: "a\\n"}}, spec: {{"b\\nc": "\\e[2J"}}}}'
    told = [str(problem) for problem in validate_text(f"{text}\n---\n{other}", file="f")]
    assert all(sentence.isprintable() for sentence in told), told
    assert told[-1].startswith(r"f: ImageCache a\n: spec.b\nc: there is no such field")


def test_what_kubectl_get_prints_is_valid() -> None:
    metadata = (
        "{name: a, namespace: b, uid: c, resourceVersion: '1', generation: 1, creationTimestamp: d, labels: {e: f}, "
        "annotations: {g: h}, managedFields: [], finalizers: [], ownerReferences: []}"
    )
    text = f"{{{OURS}, kind: RolloutPool, metadata: {metadata}, spec: {{replicas: 1}}, status: {{}}}}"
    assert validate_text(text, file="f") == []


def test_a_file_that_is_no_yaml_is_said_to_be_so_not_its_spec() -> None:
    assert str(*validate_text("a: [", file="f")) == (
        "f: YAML: line 1, column 5: a value is missing, or a bracket is not closed"
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: b: c", "line 1, column 5: a second colon in one line: put the value in quotes, or indent it below"),
        ("a:\n  b: 1\n c: 2", "line 3, column 2: the indentation does not fit the lines above it"),
        ("a: [1, 2\nb: 1", "line 2, column 2: a bracket is not closed, or a comma is missing"),
        ("a:\n\tb: 1", "line 2, column 1: a tab: indent with spaces"),
        ("a: @b", "line 1, column 4: no value begins with this sign: put it in quotes"),
        ("a: 'b", "line 1, column 6: a quote is not closed"),
        ("a: 1\nb", "line 2, column 2: a key without a colon"),
        ("a: 1\na: 2", "line 2, column 1: the key 'a' is set twice"),
    ],
)
def test_a_slip_in_yaml_is_one_sentence_with_its_place(text: str, sentence: str) -> None:
    assert str(*validate_text(text, file="f")) == f"f: YAML: {sentence}"


def test_a_misspelt_field_is_told_before_the_one_that_is_missing_for_it() -> None:
    spec = "{preset: grpo, modell: {name: a/b}, tasks: {train: {dataset: tiny}}}"
    told = validate_text(f"{{{OURS}, kind: TrainingRun, metadata: {{name: a}}, spec: {spec}}}", file="f")
    assert [problem.problem.field for problem in told] == ["spec.modell", "spec.model"]
    assert "did you mean model?" in str(told[0])


@pytest.mark.parametrize("number", [".nan", ".inf"])
def test_numbers_are_finite(number: str) -> None:
    spec = f"{{preset: tiny, tasks: {{train: {{dataset: tiny}}}}, reward: {{solved: {number}}}}}"
    (problem,) = validate_text(f"{{{OURS}, kind: TrainingRun, metadata: {{name: a}}, spec: {spec}}}", file="f")
    assert "spec.reward.solved" in str(problem)
    assert "must be a finite number" in str(problem)


def test_other_groups_beside_ours_are_not_ours_to_judge() -> None:
    other = "{apiVersion: v1, kind: ConfigMap, metadata: {name: A}, data: {}}"
    problems = validate_text(f"{other}\n---\n{POOL}", file="f")
    assert [problem.document for problem in problems] == ["RolloutPool pool"]


def test_examples_cover_every_recipe() -> None:
    named = {document["spec"].get("preset") for path in EXAMPLES for document in load_documents(path.read_text())}
    assert {"tiny", "deepswe-32b", "qwen3-8b-minimal", "qwen3-coder-30b-django"} <= named
    assert {"swepdb-4b", "swepdb-8b", "swepdb-14b", "swepdb-14b-rewrite"} <= named


def test_of_too_many_images_it_is_told_where_they_belong() -> None:
    spec = {"images": [f"r.example/a:{number}" for number in range(1_001)]}
    document = {"apiVersion": API_VERSION, "kind": "ImageCache", "metadata": {"name": "c"}, "spec": spec}
    (problem,) = validate_document(document)
    assert "at most 1000 are allowed: name a ConfigMap that lists them in imagesFrom" in str(problem)
