"""Check files as the API server and the operator would, without either."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from sweyard_api.base import DNS_NAME_PATTERN, Model
from sweyard_api.constants import API_VERSION, GROUP
from sweyard_api.crd import FIRST_LETTER_RULE, name_rule
from sweyard_api.kinds import KINDS, TRAINING_RUN, Kind
from sweyard_api.merge import merge
from sweyard_api.problem import InvalidSpecError, Problem, broken_rules, join_path, printable
from sweyard_api.resolve import resolve
from sweyard_api.sentences import did_you_mean, problems_of
from sweyard_api.yaml_text import explain, load_documents

_WRITTEN_BY_THE_SERVER = (
    *("uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp"),
    *("deletionGracePeriodSeconds", "managedFields", "selfLink"),
)
_METADATA = ("name", "namespace", "labels", "annotations", "finalizers", "ownerReferences", *_WRITTEN_BY_THE_SERVER)


@dataclass(frozen=True, slots=True)
class FileProblem:
    """A problem and where it is."""

    file: str
    document: str
    """`TrainingRun tiny`, or `document 2` where it cannot be named."""
    problem: Problem

    def __str__(self) -> str:
        said = self.problem if self.problem.field else self.problem.message
        return printable(f"{self.file}: {self.document}: {said}")


def validate_file(path: Path) -> list[FileProblem]:
    """Every problem of every document of ours in a YAML file. Raises OSError."""
    return validate_text(path.read_text(encoding="utf-8"), file=str(path))


def validate_text(text: str, *, file: str) -> list[FileProblem]:
    """As validate_file, from text; `file` is only named."""
    try:
        documents = load_documents(text)
    except yaml.YAMLError as error:
        return [FileProblem(file, "YAML", Problem("", explain(error)))]
    if not documents:
        return [FileProblem(file, "YAML", Problem("", "the file is empty"))]
    if not any(map(is_ours, documents)):
        found = ", ".join(dict.fromkeys(str(document.get("kind", "no kind")) for document in documents))
        return [
            FileProblem(file, "YAML", Problem("", f"holds no {', '.join(kind.name for kind in KINDS)}, only {found}"))
        ]
    return [
        FileProblem(file, document_name(document, index), problem)
        for index, document in enumerate(documents, start=1)
        for problem in validate_document(document)
    ]


def is_ours(document: Any) -> bool:
    """Whether it is meant for this operator; what is no manifest at all counts, so that it is told."""
    if not isinstance(document, dict):
        return True
    api_version = str(document.get("apiVersion", ""))
    of_ours = any(kind.name == document.get("kind") for kind in KINDS)
    return of_ours or not api_version or api_version.startswith(f"{GROUP}/")


def document_name(document: Any, index: int) -> str:
    """How to call a document in a message."""
    if isinstance(document, dict) and isinstance(document.get("metadata"), dict):
        kind, name = document.get("kind"), document["metadata"].get("name")
        if isinstance(kind, str) and isinstance(name, str):
            return printable(f"{kind} {name}")
    return f"document {index}"


def validate_document(document: Any) -> list[Problem]:
    """Every problem of one manifest; kinds of other API groups are not looked at."""
    if not isinstance(document, dict):
        return [Problem("", "must be a mapping with apiVersion, kind, metadata and spec")]
    if not is_ours(document):
        return []
    kind = next((kind for kind in KINDS if kind.name == document.get("kind")), None)
    return _envelope_problems(document, kind) + (_spec_problems(document.get("spec"), kind) if kind else [])


def _envelope_problems(document: Mapping[str, Any], kind: Kind | None) -> list[Problem]:
    problems = []
    if document.get("apiVersion") != API_VERSION:
        problems.append(Problem("apiVersion", f"must be {API_VERSION}", document.get("apiVersion")))
    if kind is None:
        names = [known.name for known in KINDS]
        hint = did_you_mean(str(document.get("kind")), names)
        problems.append(Problem("kind", f"must be one of {', '.join(names)}{hint}", document.get("kind")))
    else:
        problems += _metadata_problems(document.get("metadata"), kind)
    known = ("apiVersion", "kind", "metadata", "spec", "status")
    for key in document.keys() - set(known):
        problems.append(Problem(str(key), f"there is no such field here; did you mean spec.{key}?"))
    return problems


def _metadata_problems(metadata: Any, kind: Kind) -> list[Problem]:
    if not isinstance(metadata, dict):
        return [Problem("metadata", f"must be a mapping, for example metadata: {{name: my-{kind.singular}}}", metadata)]
    return [
        *_name_problems(metadata.get("name"), kind),
        *_namespace_problems(metadata.get("namespace")),
        *(problem for key in ("labels", "annotations") for problem in _strings_problems(metadata.get(key), key)),
        *(
            Problem(f"metadata.{key}", f"there is no such field{did_you_mean(key, _METADATA)}")
            for key in metadata.keys() - set(_METADATA)
        ),
    ]


def _name_problems(name: Any, kind: Kind) -> list[Problem]:
    if name is None:
        return [Problem("metadata.name", "is required")]
    if not isinstance(name, str):
        return [Problem("metadata.name", "must be a string (put it in quotes)", name)]
    if len(name) > kind.max_name_length or not re.fullmatch(DNS_NAME_PATTERN, name):
        return [Problem("metadata.name", name_rule(kind), name)]
    if kind is TRAINING_RUN and name[0].isdigit():
        return [Problem("metadata.name", FIRST_LETTER_RULE, name)]
    return []


def _namespace_problems(namespace: Any) -> list[Problem]:
    if namespace is None or (isinstance(namespace, str) and re.fullmatch(DNS_NAME_PATTERN, namespace)):
        return []
    return [Problem("metadata.namespace", "must be lower-case letters, digits and hyphens", namespace)]


def _strings_problems(mapping: Any, key: str) -> list[Problem]:
    if mapping is None:
        return []
    if not isinstance(mapping, dict):
        return [Problem(f"metadata.{key}", "must be a mapping of strings", mapping)]
    return [
        Problem(f"metadata.{key}.{name}", "must be a string (put it in quotes)", value)
        for name, value in mapping.items()
        if not isinstance(value, str)
    ]


def _spec_problems(spec: Any, kind: Kind) -> list[Problem]:
    if not isinstance(spec, dict):
        return [Problem("spec", "is required and must be a mapping")]
    problems = _run_problems(spec) if kind is TRAINING_RUN else _model_problems(spec, kind.spec)
    return [Problem(join_path("spec", found.field), found.message, found.value) for found in problems]


def _run_problems(spec: Mapping[str, Any]) -> list[Problem]:
    try:
        resolve(spec)
    except InvalidSpecError as error:
        return list(error.problems)
    return []


def _model_problems(spec: Mapping[str, Any], model: type[Model]) -> list[Problem]:
    try:
        return list(broken_rules(model.model_validate(merge({}, spec), strict=True)))
    except ValidationError as error:
        return problems_of(error, model)
