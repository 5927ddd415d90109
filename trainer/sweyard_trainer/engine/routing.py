"""Choices of experts as text: an .npy file in base64, which keeps shape and type. So vLLM sends them, too."""

import base64
import io

import numpy as np
from numpy.typing import NDArray


def encode_routing(routing: NDArray[np.unsignedinteger]) -> str:
    """[tokens, layers, experts a token], exact."""
    file = io.BytesIO()
    np.save(file, routing, allow_pickle=False)
    return base64.b64encode(file.getbuffer()).decode()


def decode_routing(text: str) -> NDArray[np.unsignedinteger]:
    """Inverse of `encode_routing`. Raises ValueError for anything else."""
    routing: NDArray[np.unsignedinteger] = np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False)
    return routing
