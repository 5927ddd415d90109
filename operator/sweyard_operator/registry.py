"""Which controllers an operator runs."""

from sweyard_operator.context import Controller, Operator
from sweyard_operator.handlers.image_cache import ImageCacheController
from sweyard_operator.handlers.rollout_pool import RolloutPoolController
from sweyard_operator.handlers.training_run import TrainingRunController


def build_controllers(operator: Operator) -> list[Controller]:
    """One controller a kind."""
    return [TrainingRunController(operator), RolloutPoolController(operator), ImageCacheController(operator)]
