"""How weights travel in a run, as its config asks."""

from typing import Protocol

from sweyard_api.engine_command import engine_takes_adapters
from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.environment import Environment
from sweyard_trainer.learner.ranks import LOOPBACK
from sweyard_trainer.weight_sync.colocated import ColocatedEngine, ColocatedFleet, SharesGpus
from sweyard_trainer.weight_sync.disk import DiskEngine
from sweyard_trainer.weight_sync.engine_control import EngineControl
from sweyard_trainer.weight_sync.fixed import FixedEngine, FixedFleet
from sweyard_trainer.weight_sync.fleet import Fleet
from sweyard_trainer.weight_sync.nccl import NcclEngine, NcclFleet, SendsWeights
from sweyard_trainer.weight_sync.patience import patience_for
from sweyard_trainer.weight_sync.scaling_fleet import ScalingFleet


class Sends(SendsWeights, SharesGpus, Protocol):
    """What the ranks can do, each where the config asks for it."""


def make_weight_sync(spec: TrainingRunSpec, environment: Environment, sender: Sends) -> Fleet:
    """To the engines that are servers, as the config says; without servers there is nobody to tell."""
    controls = [EngineControl(url, environment.engine_api_key) for url in environment.engine_urls]
    patience = patience_for(spec)
    if spec.inference.fixed_weights:
        return FixedFleet([FixedEngine(control) for control in controls], patience)
    if controls and spec.inference.weight_sync == "nccl" and spec.mode != "eval":  # whose policy is files, no ranks
        return NcclFleet(
            [NcclEngine(control) for control in controls],
            patience,
            sender,
            workers_per_engine=spec.inference.tensor_parallel,
            master_host=environment.head_address or LOOPBACK,
        )
    weights, as_adapter = environment.storage / "weights", engine_takes_adapters(spec)
    readers = [DiskEngine(control, weights, as_adapter=as_adapter) for control in controls]
    if controls and spec.inference.placement == "colocated" and spec.mode != "eval":  # in which nothing is computed
        disks = [None] * len(readers) if spec.inference.weight_sync == "ipc" else readers
        engines = [ColocatedEngine(control, disk) for control, disk in zip(controls, disks, strict=True)]
        return ColocatedFleet(engines, patience, sender)
    return ScalingFleet(readers, patience) if spec.inference.scaling else Fleet(readers, patience)
