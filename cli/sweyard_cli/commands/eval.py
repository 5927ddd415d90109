"""sweyard eval."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sweyard_api.constants import RUN_FILE
from sweyard_api.program import call
from sweyard_api.validate import validate_document
from sweyard_cli.asked_run import RUNS
from sweyard_cli.commands.export import ADAPTER_CONFIG, choose_weights, write_weights
from sweyard_cli.console import make_console
from sweyard_cli.documents import read_run
from sweyard_cli.errors import UserError
from sweyard_cli.given_path import given_path
from sweyard_cli.results.files import CONFIG_FILE
from sweyard_cli.run_directory import run_directory

WEIGHTS = "name the directory of a run, or of a model in Hugging Face format, which has a config.json"
EXPORTED = "exported"


def evaluate(
    argument: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The same as --file FILE.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help="YAML of a TrainingRun: its model, agent and tasks.eval.",
            show_default=False,
        ),
    ] = None,
    attempts: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Attempts at each task. Default: evaluation.attempts.", show_default=False
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="A model in Hugging Face format, or a run, of which the latest is taken. Default: the file's model.",
            show_default=False,
            parser=given_path,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-d",
            metavar="DIR",
            help="Where it is kept. Default: runs/NAME-eval.",
            show_default=False,
            parser=run_directory,
        ),
    ] = None,
    datasets: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Directory of data sets, beside the usual ones.", show_default=False),
    ] = None,
    allow_unisolated: Annotated[
        bool, typer.Option("--allow-unisolated", help="Run sandboxes as plain processes where there are no namespaces.")
    ] = False,
) -> None:
    """Evaluate a model on the held-out tasks of FILE, on this machine and without training."""
    from sweyard_cli.ending import show_ending
    from sweyard_cli.local.finished import is_finished
    from sweyard_cli.local.run import run_locally
    from sweyard_cli.local.trainer_process import TrainerProcess, trainer_command

    file = choose_file(argument, file)
    document = read_run(file)
    output = output or RUNS / f"{document['metadata']['name']}-eval"
    model = None if weights is None else find_model(weights, output / EXPORTED)
    document = evaluation_of(document, file, attempts=attempts, model=model)
    console = make_console()
    after = [next_command(file, weights, output, int(document["spec"].get("evaluation", {}).get("attempts", 1)))]
    if is_finished(document, output):
        console.print(f"already finished: {output} holds this evaluation and its figures", markup=False)
        show_ending(output, console, after)
        return
    command = trainer_command(None, output, datasets or [], allow_unisolated=allow_unisolated)
    process = TrainerProcess(command, output, document)
    code = run_locally(process, str(document["metadata"]["name"]), output / RUN_FILE, output, console, after)
    if not code:
        console.print(f"{'':<8}{output / 'predictions'}   # as SWE-bench's harness reads them", markup=False)
    raise typer.Exit(code)


def choose_file(argument: Path | None, option: Path | None) -> Path:
    """The one that was given, in either way. Raises UserError for none and for two."""
    if argument is not None and option is not None:
        raise UserError(f"{argument} and --file {option} are two files: give one")
    if (file := argument or option) is None:
        raise UserError("give the YAML file of a TrainingRun: --file FILE")
    return file


def evaluation_of(
    document: Mapping[str, Any], file: Path, *, attempts: int | None, model: Path | None
) -> dict[str, Any]:
    """The run that only evaluates. Raises UserError, for example without held-out tasks."""
    spec = {name: value for name, value in document["spec"].items() if name != "sft"} | {"mode": "eval"}
    if attempts is not None:
        spec["evaluation"] = {**(spec.get("evaluation") or {}), "attempts": attempts}
    if model is not None:
        spec["model"] = {"name": str(model.resolve())}
    changed = {**document, "metadata": {**document["metadata"]}, "spec": spec}
    if problems := validate_document(changed):
        raise UserError("\n".join(f"{file}: {problem}" for problem in problems))
    return changed


def find_model(weights: Path, exports: Path) -> Path:
    """A directory in Hugging Face format: `weights` itself, or made in `exports` from a run. Raises UserError."""
    if not weights.is_dir():
        raise UserError(f"--weights {weights}: there is no such directory; {WEIGHTS}")
    if (weights / "config.json").is_file():
        return weights
    if (weights / ADAPTER_CONFIG).is_file():
        raise UserError(
            f"--weights {weights} holds an adapter alone: give the run that it is from, or use "
            f"`{call('export', '--merge')}`"
        )
    if not (weights / CONFIG_FILE).is_file():
        raise UserError(f"--weights {weights} has neither config.json nor {CONFIG_FILE}; {WEIGHTS}")
    spec, chosen = choose_weights(weights.resolve())
    digest = hashlib.sha256(str(chosen.place).encode()).hexdigest()[:8]
    exported = exports / digest  # of other weights it is another model, and another evaluation
    if not exported.exists():
        write_weights(weights, spec, chosen, exported, merge=spec.trainer.lora is not None)
    return exported


def next_command(file: Path, weights: Path | None, output: Path, attempts: int) -> tuple[str, str]:
    """(command, what it does)."""
    if attempts == 1:
        chosen = ["--weights", weights] if weights else []
        command = call("eval", "-f", file, *chosen, "--attempts", 8, "--output", "DIR")
        return command, "pass@k, and best@k by a verifier that chooses"
    return call("rollouts", "list", output), "its attempts, to be read one by one"
