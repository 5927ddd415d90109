"""Write a policy in Hugging Face format, ready for vLLM and transformers."""

import shutil
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel

from sweyard_trainer.model.readable import make_readable

WEIGHT_FILES = ("*.safetensors", "*.safetensors.index.json", "*.bin", "*.pt", "COMPLETE")


CONFIG_FILES = ("config.json", "generation_config.json")


def copy_tokenizer(template: Path, directory: Path) -> None:
    """What of a model's directory is neither weights nor their config: tokenizer, chat template and the like."""
    ignored = shutil.ignore_patterns(*WEIGHT_FILES, *CONFIG_FILES)
    shutil.copytree(template, directory, dirs_exist_ok=True, ignore=ignored)


def save_model(
    model: PreTrainedModel, state: dict[str, Tensor], dtype: torch.dtype, template: Path, directory: Path
) -> None:
    """`state` holds all weights on the CPU by the names of `model`; tokenizer and the like come from `template`."""
    shutil.copytree(template, directory, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*WEIGHT_FILES))
    config_dtype = model.config.dtype
    model.config.dtype = dtype
    model.save_pretrained(directory, state_dict={name: tensor.to(dtype) for name, tensor in state.items()})
    model.config.dtype = config_dtype
    make_readable(directory)
