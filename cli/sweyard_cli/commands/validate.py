"""sweyard validate."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from sweyard_api.infrastructure import GPU_RESOURCE
from sweyard_api.program import program
from sweyard_api.resolve import resolve
from sweyard_api.validate import validate_text
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
    typer.echo(f"{file}: valid; next: {next_commands(file, load_documents(text))}")


def next_commands(file: Path, documents: Sequence[Mapping[str, Any]]) -> str:
    """What can be done with a valid file: only a single TrainingRun without GPUs surely runs without a cluster."""
    apply = f"kubectl apply -f {file}"
    if len(documents) != 1 or documents[0]["kind"] != "TrainingRun" or needs_gpus(documents[0]["spec"]):
        return apply
    return f"{apply}, or without a cluster: {program()} run -f {file}"


def needs_gpus(spec: Mapping[str, Any]) -> bool:
    """Of a valid TrainingRun's spec."""
    run = resolve(spec)
    limits = {**run.trainer.resources.limits, **run.inference.resources.limits}
    return run.trainer.device == "cuda" or GPU_RESOURCE in limits
