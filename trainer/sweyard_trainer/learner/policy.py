"""Policy: a causal language model that answers one question, the log-probability of the trained tokens."""

from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from transformers import PreTrainedModel

from sweyard_trainer.learner.attention import Packing
from sweyard_trainer.learner.logprobs import chunked_logprobs
from sweyard_trainer.learner.routing import RoutingReplay
from sweyard_trainer.learner.sequence_parallel import share_of_tokens, sum_over
from sweyard_trainer.learner.sequences import PackedBatch


class Policy(nn.Module):
    """Wraps a transformers model whose attention is `attention.NAME`."""

    def __init__(
        self,
        model: PreTrainedModel,
        sequence_group: ProcessGroup | None = None,
        replay: RoutingReplay | None = None,
    ) -> None:
        """Ranks of `sequence_group` are given the same batches and share the tokens of each."""
        super().__init__()
        self.model = model
        self.sequence_group = sequence_group
        self.replay = replay

    def forward(self, batch: PackedBatch, entropy_gradient: bool = False) -> tuple[Tensor, Tensor]:
        """(logprobs, entropies) of the batch's N trained tokens, [N] each, on every rank of the group."""
        if self.sequence_group is not None:
            return self._by_shares(batch, entropy_gradient, self.sequence_group)
        hidden = self._hidden(batch.token_ids, batch.position_ids, batch.lengths, batch.routed_experts)
        return self._logprobs(hidden[batch.predictors], batch.targets, batch.temperatures, entropy_gradient)

    def _by_shares(self, batch: PackedBatch, entropy_gradient: bool, group: ProcessGroup) -> tuple[Tensor, Tensor]:
        num_tokens = batch.token_ids.shape[1]
        share, own = share_of_tokens(num_tokens, group)
        padding = share * group.size() - num_tokens
        token_ids, position_ids = (F.pad(ids, (0, padding))[:, own] for ids in (batch.token_ids, batch.position_ids))
        lengths = (*batch.lengths, padding) if padding else batch.lengths
        routing = batch.routed_experts
        if routing is not None:
            routing = F.pad(routing, (0, 0, 0, 0, 0, padding))[own]
        hidden = self._hidden(token_ids, position_ids, lengths, routing)
        mine = (batch.predictors >= own.start) & (batch.predictors < own.stop)
        parts = self._logprobs(
            hidden[batch.predictors[mine] - own.start], batch.targets[mine], batch.temperatures[mine], entropy_gradient
        )
        places = mine.nonzero()[:, 0]
        logprobs, entropies = (part.new_zeros(len(mine)).index_add(0, places, part) for part in parts)
        return sum_over(logprobs, group), sum_over(entropies, group)

    def _hidden(
        self, token_ids: Tensor, position_ids: Tensor, lengths: tuple[int, ...], routing: Tensor | None
    ) -> Tensor:
        """[T, H]"""
        if self.replay is not None:
            self.replay.begin(routing)
        output = self.model.base_model(
            input_ids=token_ids,
            position_ids=position_ids,
            use_cache=False,
            packing=Packing(lengths, self.sequence_group),
        )
        return cast(Tensor, output.last_hidden_state[0])

    def _logprobs(
        self, hidden: Tensor, targets: Tensor, temperatures: Tensor, entropy_gradient: bool
    ) -> tuple[Tensor, Tensor]:
        head = cast(nn.Linear, self.model.get_output_embeddings())
        return chunked_logprobs(hidden, head.weight, targets, temperatures, entropy_gradient=entropy_gradient)
