"""Messages between a local sandbox and its first process: JSON with descriptors, over a SOCK_SEQPACKET socket.

What files and long commands hold never is in a message: it travels as a descriptor.
"""

import json
import os
import socket
from typing import Any

_LONGEST_MESSAGE_BYTES = 65_536
_ELSEWHERE = b"@"
"""The message is the content of its first descriptor."""
_MOST_DESCRIPTORS = 4


def send_message(stream: socket.socket, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
    """One message. The descriptors stay open here. Raises OSError."""
    data = json.dumps(message).encode()
    if len(data) <= _LONGEST_MESSAGE_BYTES:
        socket.send_fds(stream, [data], descriptors)
        return
    elsewhere = to_descriptor(data)
    try:
        socket.send_fds(stream, [_ELSEWHERE], (elsewhere, *descriptors))
    finally:
        os.close(elsewhere)


def receive_message(stream: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next message and its descriptors, which now are the caller's; None at the end of the stream."""
    flags = socket.MSG_CMSG_CLOEXEC
    data, descriptors, _, _ = socket.recv_fds(stream, _LONGEST_MESSAGE_BYTES, _MOST_DESCRIPTORS, flags)
    if not data:
        return None
    if data == _ELSEWHERE:
        data = from_descriptor(descriptors.pop(0))
    message: dict[str, Any] = json.loads(data)
    return message, descriptors


def to_descriptor(data: bytes | bytearray | memoryview) -> int:
    """A new descriptor of a file in memory that holds `data`, to be read from its beginning."""
    descriptor = os.memfd_create("sweyard")
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def from_descriptor(descriptor: int, cap_bytes: int | None = None) -> bytes:
    """What there is to read, at most `cap_bytes`; closes it."""
    data = bytearray()
    try:
        while cap_bytes is None or len(data) < cap_bytes:
            size = 1 << 20 if cap_bytes is None else min(1 << 20, cap_bytes - len(data))
            chunk = os.read(descriptor, size)
            if not chunk:
                break
            data += chunk
    finally:
        os.close(descriptor)
    return bytes(data)
