"""Policy: a causal language model that answers one question, the log-probability of the trained tokens."""

from typing import cast

from torch import Tensor, nn
from transformers import PreTrainedModel

from sweyard_trainer.learner.logprobs import chunked_logprobs
from sweyard_trainer.learner.sequences import PackedBatch


class Policy(nn.Module):
    """Wraps a transformers model whose attention is `attention.NAME`."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: PackedBatch, entropy_gradient: bool = False) -> tuple[Tensor, Tensor]:
        """(logprobs, entropies) of the batch's N trained tokens, [N] each."""
        backbone = self.model.base_model
        hidden = backbone(
            input_ids=batch.token_ids, position_ids=batch.position_ids, use_cache=False, lengths=batch.lengths
        ).last_hidden_state[0]
        head = cast(nn.Linear, self.model.get_output_embeddings())
        return chunked_logprobs(
            hidden[batch.predictors],
            head.weight,
            batch.targets,
            batch.temperatures,
            entropy_gradient=entropy_gradient,
        )
