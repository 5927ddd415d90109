"""Put the run's initial model into `<storage>/model`, once: made from scratch, copied, or taken from a hub; beside it
what engines serve of it, where that is other files.

`python -m sweyard_trainer.prepare --config FILE --storage DIR` is the init container of engines and trainer, which may
run at the same time on different nodes: each prepares beside the target and the first to finish wins.
"""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sweyard_api.constants import DATASET_MOUNT_PATH, RUN_FILE
from sweyard_api.engine_command import engine_model
from sweyard_api.resolve import load_config
from sweyard_api.training_run import TrainingRunSpec
from sweyard_api.workload import ModelSource, TaskSource
from sweyard_sandbox.agents.registry import make_agent
from sweyard_sandbox.errors import SweyardError
from sweyard_sandbox.tasks.load import load_tasks
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.atomic_directory import atomic_directory
from sweyard_trainer.completeness import is_complete
from sweyard_trainer.errors import ModelUnreachableError, UnsupportedError
from sweyard_trainer.exit_codes import DONE, exit_code_of
from sweyard_trainer.last_words import TERMINATION_LOG, tell_why
from sweyard_trainer.model.intact import check_intact

MODEL_FILES = ("*.json", "*.safetensors", "*.jinja", "*.model", "*.txt", "*.py")
"""What of a hub repository is needed."""
REFUSED = (400, 401, 403, 404, 410, 451)
"""Answers of a hub that asking again does not change."""
OTHER_MODEL = "name a local directory in Hugging Face format as model.name"


def prepare_model(
    spec: TrainingRunSpec,
    storage: Path,
    datasets: Sequence[Path] = (Path(DATASET_MOUNT_PATH),),
    token: str | None = None,
) -> Path:
    """The model's directory, made unless it is there. `datasets` is where plain data set names are looked up.

    Raises UnsupportedError for a model that cannot be had, ModelUnreachableError for one that another try may have,
    ModelDamagedError, DatasetError, StorageFullError.
    """
    target = storage / "model"
    if is_complete(target):
        check_intact(target, f"remove the directory {target}, and the model is made or fetched again")
    else:
        with atomic_directory(target) as directory:
            if spec.model.scratch is not None:
                _make(spec, directory, load_tasks(demonstrated_tasks(spec), datasets))
            else:
                _fetch(spec.model, directory, token)
    served = Path(engine_model(spec, str(target)))
    if served != target and not is_complete(served):
        from sweyard_trainer.model.int4_files import write_int4  # imports PyTorch

        with atomic_directory(served) as directory:
            write_int4(target, directory)
    return target


def demonstrated_tasks(spec: TrainingRunSpec) -> TaskSource:
    """What scripted demonstrations, and a tokenizer made here, are taken from."""
    source = spec.warmup.tasks if spec.warmup and spec.warmup.tasks else spec.tasks.train
    assert source is not None, "a config that needs training tasks and has none is refused when it is resolved"
    return source


def task_texts(spec: TrainingRunSpec, tasks: Sequence[Task]) -> Iterator[str]:
    """What the tokenizer learns from: what the agent would read and write on the training tasks.

    Where it has no scripted solver: their statements and repairs.
    """
    agent = make_agent(spec.agent)
    for number, task in enumerate(tasks):
        try:
            for correct in (True, False):
                conversation = agent.scripted(task, correct=correct, seed=spec.seed + number)
                yield from (message.content for message in conversation)
        except NotImplementedError:
            yield from (task.problem_statement, task.gold_patch)


def _make(spec: TrainingRunSpec, directory: Path, tasks: Sequence[Task]) -> None:
    # Import PyTorch, which takes ten seconds; a refusal, or a model that is there, need not wait for it.
    from sweyard_trainer.model.scratch import make_scratch_model
    from sweyard_trainer.model.tokenizer import learn_tokenizer

    assert spec.model.scratch is not None
    length = spec.inference.max_model_len or spec.rollout.max_prompt_tokens + spec.rollout.max_response_tokens
    tokenizer = learn_tokenizer(task_texts(spec, tasks), spec.model.scratch.vocabulary_size, length)
    make_scratch_model(spec.model.scratch, tokenizer, length, spec.seed, directory)


def _fetch(model: ModelSource, directory: Path, token: str | None) -> None:
    assert model.name is not None
    local = Path(model.name).expanduser()
    if local.is_dir():
        check_intact(local, f"mend it, or {OTHER_MODEL}")
        _demand_language_model(model.name, local)  # before it is copied: it may be anything, and large
        shutil.copytree(local, directory, dirs_exist_ok=True)
    elif model.name.startswith((".", "/", "~")):
        raise UnsupportedError(f"model.name {model.name!r}: there is no such directory; {OTHER_MODEL}")
    else:
        _download(model.name, model.revision, directory, token)
        _demand_language_model(model.name, directory)


def _demand_language_model(name: str, directory: Path) -> None:
    config = directory / "config.json"
    if not config.is_file():
        ours = (directory / RUN_FILE).is_file()
        remedy = "`sweyard export` makes a model of a run" if ours else "give a model in Hugging Face format"
        raise UnsupportedError(f"model.name {name!r} has no config.json; {remedy}")
    architectures: list[Any] = json.loads(config.read_text()).get("architectures") or []
    if not any(str(each).endswith("ForCausalLM") for each in architectures):
        raise UnsupportedError(f"model.name {name!r} is {architectures}; give a causal language model")


def _download(name: str, revision: str | None, directory: Path, token: str | None) -> None:
    import httpx
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
    )

    failed = f"model.name {name!r} cannot be downloaded from the hub"
    try:
        snapshot_download(name, revision=revision, local_dir=directory, token=token, allow_patterns=list(MODEL_FILES))
    except (HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled, httpx.HTTPError) as error:
        if isinstance(error, HfHubHTTPError) and error.response.status_code in REFUSED:
            raise UnsupportedError(
                f"{failed} ({_cause(error)}); check the name and model.revision, for a private or gated one set "
                f"HF_TOKEN (on a cluster: model.tokenSecret), or {OTHER_MODEL}"
            ) from error
        raise ModelUnreachableError(
            f"{failed} ({_cause(error)}); check the network, set HF_ENDPOINT to a mirror, or {OTHER_MODEL}"
        ) from error
    except HFValidationError as error:
        raise UnsupportedError(f"{failed} ({_cause(error)}); write OWNER/NAME, or {OTHER_MODEL}") from error
    shutil.rmtree(directory / ".cache", ignore_errors=True)


def _cause(error: Exception) -> str:
    said = str(error).strip() or type(error).__name__
    return said.splitlines()[0].removeprefix("Got: ").rstrip(".:")


def main(argv: Sequence[str], termination_log: Path = TERMINATION_LOG) -> int:
    """Exit code: 0 done, 2 the user's fault, 1 worth another try; the reason also goes into `termination_log`."""
    parser = argparse.ArgumentParser(prog="python -m sweyard_trainer.prepare", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="resolved config of the run")
    parser.add_argument("--storage", type=Path, required=True, help="the run's volume")
    parser.add_argument("--datasets", type=Path, action="append", help="directory of data sets")
    arguments = parser.parse_args(argv)
    spec = load_config(arguments.config.read_text(encoding="utf-8"))
    datasets = arguments.datasets or [Path(DATASET_MOUNT_PATH)]
    try:
        print(prepare_model(spec, arguments.storage, datasets, os.environ.get("HF_TOKEN")))
    except SweyardError as error:
        print(f"error: {error}", file=sys.stderr)
        tell_why(str(error), termination_log)
        return exit_code_of(error)
    return DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
