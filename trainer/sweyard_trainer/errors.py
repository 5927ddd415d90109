"""Failures of the learner and ends of the main loop as types."""

from sweyard_sandbox.errors import SweyardError


class UnsupportedError(SweyardError, ValueError):
    """The user asks for what cannot be done; the sentence names the field and the remedy."""


class ModelUnreachableError(SweyardError):
    """The hub does not answer, or is busy: another try may have the model."""


class ModelDamagedError(SweyardError, ValueError):
    """The run's own copy of the initial model is not whole; starting again does not mend it."""


class NothingToTrainError(SweyardError):
    """Every attempt of a batch is masked or failed for infrastructure's sake."""


class TrainingDivergedError(SweyardError):
    """Loss or gradient is no number; going on would only spoil the weights."""


class EngineDivergedError(SweyardError):
    """The engine samples from another policy than the one that is trained."""


class RankDiedError(SweyardError):
    """A process of the gang is gone; the gang must start again from the last checkpoint."""


class CheckpointError(SweyardError):
    """A checkpoint could not be written; the next life goes on from the one before it."""


class CheckpointDamagedError(SweyardError, ValueError):
    """A complete checkpoint cannot be read; starting again does not mend it."""


class WeightSyncError(SweyardError):
    """An engine did not take new weights, or serves others than those that it was sent."""


class TakesNoWeightsError(WeightSyncError, ValueError):
    """An engine has no route that takes weights."""


class EngineAwayError(WeightSyncError):
    """An engine does not answer."""


class EnginesGoneError(SweyardError):
    """No engine has served for so long that the run's life ends; the next one goes on from the last checkpoint."""


class StoppedError(SweyardError):
    """The run was asked to stop; what was done is in a checkpoint."""


class ReportRefusedError(SweyardError, ValueError):
    """The run may not tell what it does; starting again does not change that."""
