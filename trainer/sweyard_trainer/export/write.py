"""Write the chosen weights: read by the learner's own reader and written by its own writer, as one rank on the CPU."""

import asyncio
import shutil
from pathlib import Path

from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.atomic_directory import new_directory
from sweyard_trainer.completeness import COMPLETE
from sweyard_trainer.export.choice import Chosen, ExportError
from sweyard_trainer.learner.ranks import LocalRank
from sweyard_trainer.model.save import copy_tokenizer

ADAPTER_CONFIG = "adapter_config.json"
ON_ONE_CPU = {
    "device": "cpu",
    "replicas": 1,
    "processes_per_replica": 1,
    "sequence_parallel": 1,
    "cpu_offload": False,
    "compile": False,
}


def export_weights(run: Path, spec: TrainingRunSpec, chosen: Chosen, target: Path, *, merge: bool) -> None:
    """Make `target`: a whole model, or for a run with trainer.lora and without `merge` the adapter; and the tokenizer.

    `spec` is the run's resolved config. Raises FileExistsError, ExportError, StorageFullError; then nothing is left
    behind.
    """
    if merge and spec.trainer.lora is None:
        raise ExportError(f"{run} trained whole weights, so there is nothing to merge: leave out --merge")
    with new_directory(target) as partial:
        if chosen.checkpoint is not None:
            asyncio.run(_from_checkpoint(spec, run.resolve(), chosen.checkpoint, partial, merge))
        else:
            _from_weights(Path(chosen.place), partial, merge)
        copy_tokenizer(run / "model", partial)
        (partial / COMPLETE).unlink(missing_ok=True)


async def _from_checkpoint(
    spec: TrainingRunSpec, run: Path, checkpoint: tuple[str, str], directory: Path, merge: bool
) -> None:
    alone = spec.model_copy(update={"trainer": spec.trainer.model_copy(update=ON_ONE_CPU)})
    rank = LocalRank(alone, run)
    await rank.start()
    try:
        await rank.call("load_model", [()])
        await rank.call("read_checkpoint", [(*checkpoint, False)])
        if spec.trainer.lora is None or merge:
            await rank.call("write_weights", [(directory,)])
        else:
            await rank.call("write_adapter", [(directory, _base_name(spec, run))])
    finally:
        await rank.stop()


def _base_name(spec: TrainingRunSpec, run: Path) -> str:
    """What an adapter belongs to: the hub's model, which others have too, else the run's own copy."""
    name = spec.model.name
    if name is None or Path(name).expanduser().is_dir():
        return str(run / "model")
    return name


def _from_weights(weights: Path, directory: Path, merge: bool) -> None:
    if merge and (weights / ADAPTER_CONFIG).exists():
        raise ExportError(f"{weights} holds an adapter alone, and only a checkpoint can be merged: leave out --merge")
    shutil.copytree(weights, directory, dirs_exist_ok=True)
