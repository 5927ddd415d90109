"""A small byte-pair tokenizer learned from texts. Any byte can be written; digits stay apart, so numbers have one form.

Learning is deterministic: the same texts in the same order give the same tokenizer.
"""

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from sweyard_trainer.model.chat_template import CHAT_TEMPLATE, END, PAD, SPECIAL_TOKENS


def learn_tokenizer(texts: Iterable[str], vocabulary_size: int, max_length: int) -> PreTrainedTokenizerFast:
    """At most `vocabulary_size` tokens (fewer if the texts have no more pairs), special tokens first."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        chat_template=CHAT_TEMPLATE,
        model_max_length=max_length,
        clean_up_tokenization_spaces=False,
        additional_special_tokens=[token for token in SPECIAL_TOKENS if token not in (END, PAD)],
    )
