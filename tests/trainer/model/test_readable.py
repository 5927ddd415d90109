"""Who may enter a directory of weights may read them, whatever wrote them."""

import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from sweyard_api.infrastructure import Lora
from sweyard_trainer.model.int4_files import write_int4
from sweyard_trainer.model.lora import save_adapter
from sweyard_trainer.model.readable import make_readable
from sweyard_trainer.model.save import save_model


def whole(model: Path, directory: Path) -> None:
    network = AutoModelForCausalLM.from_pretrained(model)
    save_model(network, network.state_dict(), torch.float32, model, directory)


def adapter(model: Path, directory: Path) -> None:
    state = {f"layers.0.q_proj.lora_{letter}.default.weight": torch.zeros(2, 2) for letter in "AB"}
    save_adapter(state, Lora(), str(model), directory)


def as_it_is(model: Path, directory: Path) -> None:
    """The fixture's, made from scratch."""
    directory.symlink_to(model)


@pytest.mark.parametrize("write", [whole, adapter, write_int4, as_it_is])
def test_weights_are_readable_as_their_directory_is(
    tiny_model: Path, tmp_path: Path, write: Callable[[Path, Path], None]
) -> None:
    directory = tmp_path / "weights"
    if write is not as_it_is:
        directory.mkdir(mode=0o755)
    write(tiny_model, directory)
    modes = [stat.filemode(path.stat().st_mode) for path in directory.glob("*.safetensors")]
    assert modes == ["-rw-r--r--"]


def test_weights_in_a_private_directory_stay_private(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").touch(mode=0o600)
    tmp_path.chmod(0o700)
    make_readable(tmp_path)
    assert stat.filemode((tmp_path / "model.safetensors").stat().st_mode) == "-rw-------"
