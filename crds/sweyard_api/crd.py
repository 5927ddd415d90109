"""Generate the CustomResourceDefinitions: `python -m sweyard_api.crd [--check]`, at the root of the repository."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from sweyard_api.base import DNS_NAME_PATTERN
from sweyard_api.constants import GROUP, VERSION
from sweyard_api.crd_rules import required_rules, tell_what_may_change, transition_rules
from sweyard_api.generated import write_or_check
from sweyard_api.kinds import KINDS, TRAINING_RUN, Kind
from sweyard_api.presets import list_presets
from sweyard_api.schema import Schema, structural_schema, tell_defaults, without_defaults, without_required

TARGETS = (Path("crds"), Path("charts/sweyard/files/crds"))
"""Where the generated files live; the chart's copies are identical."""

_HEADER = "# Generated from the models in crds/sweyard_api by `make crds`. Do not edit.\n"


def build_crd(kind: Kind) -> dict[str, Any]:
    """The manifest of one kind."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.singular,
                "shortNames": [kind.short],
                "categories": ["sweyard"],
            },
            "versions": [_version(kind)],
        },
    }


def _version(kind: Kind) -> dict[str, Any]:
    subresources: dict[str, Any] = {"status": {}}
    if kind.scalable:
        subresources["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _root_schema(kind)},
        "subresources": subresources,
        "additionalPrinterColumns": [column.as_manifest() for column in kind.columns],
    }


FIRST_LETTER_RULE = "the name of a TrainingRun must begin with a letter: services are named after it"
_FIRST_LETTER = {
    # API servers from 1.36 on let a Service begin with a digit: a run that did has a status, and goes on.
    "rule": "has(self.status) || self.metadata.name.matches('^[a-z]')",
    "message": FIRST_LETTER_RULE,
}


def _root_schema(kind: Kind) -> Schema:
    return {
        "type": "object",
        "description": kind.description,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": f"{GROUP}/{VERSION}."},
            "kind": {"type": "string", "description": f"{kind.name}."},
            "metadata": {"type": "object"},
            "spec": _run_schema(kind) if kind is TRAINING_RUN else tell_defaults(structural_schema(kind.spec)),
            "status": without_defaults(structural_schema(kind.status)),
        },
        "x-kubernetes-validations": [
            {
                "rule": f"size(self.metadata.name) <= {kind.max_name_length}"
                f" && self.metadata.name.matches(r'{DNS_NAME_PATTERN}')",
                "message": name_rule(kind),
            },
            *([_FIRST_LETTER] if kind is TRAINING_RUN else ()),
        ],
    }


def name_rule(kind: Kind) -> str:
    """What a name of this kind must be."""
    article = "an" if kind.name[0] in "AEIOU" else "a"
    return (
        f"the name of {article} {kind.name} must have at most {kind.max_name_length} characters, lower-case letters, "
        "digits and hyphens: pods, services and labels are named after it"
    )


def _run_schema(kind: Kind) -> Schema:
    """A preset may set any field, so nothing is required or filled in before it is known."""
    whole = structural_schema(kind.spec)
    spec = without_required(without_defaults(tell_defaults(whole, " (or the preset's)")))
    spec["properties"]["preset"]["enum"] = list_presets()
    spec["x-kubernetes-validations"] = [
        *spec["x-kubernetes-validations"],
        *required_rules(whole),
        *transition_rules(spec),
    ]
    return tell_what_may_change(spec)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def generated_files() -> dict[str, str]:
    """File name to content."""
    return {
        f"{kind.plural}.yaml": _HEADER + yaml.dump(build_crd(kind), Dumper=_Dumper, sort_keys=False, width=120)
        for kind in KINDS
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files, or with --check report those that differ."""
    generated = generated_files()
    files = {folder / name: text for folder in TARGETS for name, text in generated.items()}
    return write_or_check(__doc__, files, arguments)


if __name__ == "__main__":
    sys.exit(main())
