"""Choices of experts as an .npy file, which keeps shape and type; as text its base64. So vLLM sends them, too."""

import base64
import io

import numpy as np
from numpy.typing import NDArray


def routing_to_npy(routing: NDArray[np.unsignedinteger]) -> bytes:
    """[tokens, layers, experts a token], exact."""
    file = io.BytesIO()
    np.save(file, routing, allow_pickle=False)
    return file.getvalue()


def routing_from_npy(data: bytes) -> NDArray[np.unsignedinteger]:
    """Inverse of `routing_to_npy`. Raises ValueError for anything else."""
    routing: NDArray[np.unsignedinteger] = np.load(io.BytesIO(data), allow_pickle=False)
    return routing


def encode_routing(routing: NDArray[np.unsignedinteger]) -> str:
    """As text."""
    return base64.b64encode(routing_to_npy(routing)).decode()


def decode_routing(text: str) -> NDArray[np.unsignedinteger]:
    """Inverse of `encode_routing`. Raises ValueError for anything else."""
    return routing_from_npy(base64.b64decode(text))
