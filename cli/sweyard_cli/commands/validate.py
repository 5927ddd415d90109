"""sweyard validate."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from sweyard_api.kinds import TRAINING_RUN
from sweyard_api.pod_options import GPU_RESOURCE
from sweyard_api.program import call
from sweyard_api.recorded import recorded_paths
from sweyard_api.resolve import resolve
from sweyard_api.validate import document_name, is_ours, validate_text
from sweyard_api.yaml_text import load_documents
from sweyard_cli.commands.options import FileOption
from sweyard_cli.documents import read_text


def validate(file: FileOption) -> None:
    """Say what is wrong in FILE, one sentence a mistake; needs no cluster."""
    text = read_text(file)
    problems = validate_text(text, file=str(file))
    for problem in problems:
        typer.echo(str(problem), err=True)
    if problems:
        raise typer.Exit(2)
    documents = load_documents(text)
    for warning in warnings(documents):
        typer.echo(f"{file}: warning: {warning}", err=True)
    typer.echo(f"{file}: valid{skipped(documents)}; next: {next_commands(file, documents)}")


def skipped(documents: Sequence[Mapping[str, Any]]) -> str:
    """What was not looked at."""
    names = [document_name(each, number) for number, each in enumerate(documents, 1) if not is_ours(each)]
    return f" (skipped, for this is of other kinds: {', '.join(names)})" if names else ""


def warnings(documents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What is dropped, and what a run needs and this machine has not: it may be where the run will be."""
    for number, document in enumerate(documents, 1):
        if is_ours(document) and document.get("status"):
            yield (
                f"{document_name(document, number)}: status is the operator's to write, and what a file says there is "
                "dropped: leave it out"
            )
        if document.get("kind") == TRAINING_RUN.name:
            for path in recorded_paths(resolve(document["spec"])):
                if not path.is_here:
                    yield f"{document_name(document, number)}: {path}; it must be where the run is"


def next_commands(file: Path, documents: Sequence[Mapping[str, Any]]) -> str:
    """What can be done with a valid file: a single TrainingRun may also run without a cluster."""
    apply = f"kubectl apply -f {shlex.quote(str(file))}"
    if len(documents) != 1 or documents[0]["kind"] != TRAINING_RUN.name:
        return apply
    where = "on a machine with its GPUs" if needs_gpus(documents[0]["spec"]) else "without a cluster"
    return f"{apply}, or {where}: {call('run', '-f', file)}"


def needs_gpus(spec: Mapping[str, Any]) -> bool:
    """Of a valid TrainingRun's spec."""
    run = resolve(spec)
    limits = {**run.trainer.resources.limits, **run.inference.resources.limits}
    return run.trainer.device == "cuda" or GPU_RESOURCE in limits
