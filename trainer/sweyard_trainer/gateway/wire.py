"""Token records as JSON, exact: arrays travel as base64 of their little-endian bytes."""

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweyard_sandbox.agents.protocol import Message
from sweyard_trainer.engine.routing import decode_routing, encode_routing
from sweyard_trainer.gateway.session import SessionRecord
from sweyard_trainer.trajectory import Segment

COLUMNS = {"token_ids": "<i4", "loss_mask": "|b1", "logprobs": "<f4", "weight_versions": "<i4"}
ROUTING = "routed_experts"
PLAIN = ("num_forks", "truncated", "spent", "failure")


def encode_segment(segment: Segment) -> dict[str, str]:
    """A Segment as JSON-able data."""
    columns = {name: _encode(np.asarray(getattr(segment, name), dtype)) for name, dtype in COLUMNS.items()}
    routing = segment.routed_experts
    return columns if routing is None else columns | {ROUTING: encode_routing(routing)}


def decode_segment(data: dict[str, str]) -> Segment:
    """Inverse of `encode_segment`."""
    columns = {name: np.frombuffer(base64.b64decode(data[name]), dtype) for name, dtype in COLUMNS.items()}
    return Segment(**columns, routed_experts=decode_routing(data[ROUTING]) if ROUTING in data else None)


def _encode(array: NDArray[np.generic]) -> str:
    return base64.b64encode(array.tobytes()).decode()


def encode_record(record: SessionRecord) -> dict[str, Any]:
    """A SessionRecord as JSON-able data."""
    segments = [encode_segment(segment) for segment in record.segments]
    messages = [[message.role, message.content] for message in record.messages]
    plain = {name: getattr(record, name) for name in PLAIN}
    return {"segments": segments, "messages": messages, **plain}


def decode_record(data: dict[str, Any]) -> SessionRecord:
    """Inverse of `encode_record`."""
    segments = tuple(decode_segment(segment) for segment in data["segments"])
    messages = tuple(Message(role, content) for role, content in data["messages"])
    return SessionRecord(segments, messages=messages, **{name: data[name] for name in PLAIN})
