"""The same run without a cluster: local sandboxes, an engine in this process. `python -m sweyard_trainer.local`."""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from yaml import YAMLError

from sweyard_api.cache_root import dataset_directories
from sweyard_api.colocated import engine_urls
from sweyard_api.constants import RUN_FILE
from sweyard_api.difference import differences
from sweyard_api.engine_command import engine_model
from sweyard_api.problem import InvalidSpecError
from sweyard_api.resolve import dump_config, resolve
from sweyard_api.training_run import TrainingRunSpec
from sweyard_api.yaml_text import load_document
from sweyard_sandbox.errors import SweyardError
from sweyard_trainer.atomic_directory import remove_abandoned
from sweyard_trainer.custom import check_custom_code
from sweyard_trainer.demonstrations.present import require_datasets, require_recorded
from sweyard_trainer.engine.pod_engines import pod_engines
from sweyard_trainer.environment import Environment
from sweyard_trainer.exit_codes import exit_code_of
from sweyard_trainer.prepare import prepare_model
from sweyard_trainer.storage_errors import typed_storage_errors
from sweyard_trainer.waiting_threads import let_threads_sleep

CONFIG_FILE = "config.yaml"
LOCALHOST = "127.0.0.1"
PARTS = ("model", "checkpoints", "weights", "rollouts", "metrics")
"""What a run has once it is more than a config. The model comes first."""
SHOWN_DIFFERENCES = 3


class OutputTakenError(SweyardError, ValueError):
    """The output directory holds another run."""


def run_local(
    document: Mapping[str, Any],
    output: Path,
    datasets: Sequence[Path],
    *,
    variables: Mapping[str, str] | None = None,
    allow_unisolated: bool = False,
) -> dict[str, Any]:
    """Run a TrainingRun document to its end, or go on with the one that `output` holds; its summary.

    Raises InvalidSpecError, OutputTakenError, DatasetError and other user errors with a sentence; StoppedError after
    SIGTERM or SIGINT, with a checkpoint taken.
    """
    spec = resolve(document["spec"])
    require_recorded(spec)
    _claim_output(output, spec)
    _write(output / RUN_FILE, yaml.safe_dump(dict(document), sort_keys=False))
    require_datasets(spec, datasets)
    check_custom_code(spec)
    for made in {output / "model", Path(engine_model(spec, str(output / "model")))}:
        remove_abandoned(made)  # by a life that was killed: nobody else makes it here
    prepare_model(spec, output.resolve(), datasets, (variables or {}).get("HF_TOKEN"))
    from sweyard_trainer.run import run_training  # imports PyTorch: what can be refused has been

    environment = local_environment(
        document, spec, output, datasets, variables or {}, allow_unisolated=allow_unisolated
    )
    with pod_engines(spec, environment.storage / "model", variables or {}):
        return asyncio.run(run_training(spec, environment, stop_signals=(signal.SIGTERM, signal.SIGINT)))


def local_environment(
    document: Mapping[str, Any],
    spec: TrainingRunSpec,
    output: Path,
    datasets: Sequence[Path],
    variables: Mapping[str, str],
    *,
    allow_unisolated: bool,
) -> Environment:
    """Engines that are servers only where the config or SWEYARD_ENGINE_URLS names them, or they are colocated."""
    urls = [spec.inference.url] if spec.inference.url else variables.get("SWEYARD_ENGINE_URLS", "").split(",")
    if spec.inference.placement == "colocated":
        urls = engine_urls(spec, LOCALHOST)
    return Environment(
        run=str(document.get("metadata", {}).get("name") or output.name),
        storage=output.resolve(),
        engine_urls=tuple(url for url in urls if url),
        engine_api_key=variables.get("SWEYARD_ENGINE_API_KEY"),
        hub_token=variables.get("HF_TOKEN"),
        datasets=tuple(datasets),
        allow_unisolated=allow_unisolated,
    )


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m sweyard_trainer.local", description=__doc__)
    parser.add_argument("-f", "--file", type=Path, required=True, help="YAML of one TrainingRun")
    parser.add_argument("--output", type=Path, required=True, help="directory of the run; goes on where it left off")
    parser.add_argument(
        "--datasets", type=Path, action="append", default=[], help="directory of data sets, before the usual ones"
    )
    parser.add_argument("--allow-unisolated", action="store_true", help="run without namespaces where there are none")
    arguments = parser.parse_args()
    let_threads_sleep(os.environ)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # ray.init has no argument for it
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        run_local(
            load_document(arguments.file.read_text(encoding="utf-8")),
            arguments.output,
            (*arguments.datasets, *dataset_directories(os.environ)),
            variables=os.environ,
            allow_unisolated=arguments.allow_unisolated,
        )
    except (SweyardError, InvalidSpecError) as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_code_of(error)
    return 0


def _claim_output(output: Path, spec: TrainingRunSpec) -> None:
    """Write the resolved config, once; another one there means another run, unless that never had a model."""
    output.mkdir(parents=True, exist_ok=True)
    path, text = output / CONFIG_FILE, dump_config(spec)
    if _is_begun(output) and path.exists() and (known := path.read_text("utf-8", "replace")) != text:
        raise OutputTakenError(
            f"{output} holds a run with another config{_differing(known, text)}: choose another --output, or remove it"
        )
    _write(path, text)


def _write(path: Path, text: str) -> None:
    """At once and whole."""
    partial = path.with_suffix(".partial")
    with typed_storage_errors(path.parent):
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)


def _is_begun(output: Path) -> bool:
    return any((output / part).exists() for part in PARTS)


def _differing(known: str, asked: str) -> str:
    """` (steps was 6 and is 99, ...)`; nothing where the file there is no config."""
    try:
        before = load_document(known)
    except YAMLError:
        return ""
    if not isinstance(before, dict):
        return ""
    found = list(differences(before, load_document(asked)))
    more = f", and {len(found) - SHOWN_DIFFERENCES} more" if len(found) > SHOWN_DIFFERENCES else ""
    return f" ({', '.join(found[:SHOWN_DIFFERENCES])}{more})" if found else ""


if __name__ == "__main__":
    sys.exit(main())
