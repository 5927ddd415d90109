"""RequestBook: what is sent for each command, under an id of its own, and when the driver may forget it. Pure."""

from dataclasses import dataclass, field

from sweyard_sandbox.driver import wire

_FORGET_AFTER = 64
_FORGET_BYTES = 4_000_000
_RUN_FROM_FILE = '\nexec 5<"$spool/$SWEYARD_COMMAND.put.$driver"\nlaunch=${launch% -c} command=/dev/fd/5'
"""By descriptor, for the spool is closed to other users; without -c, for the argument would be too long."""


@dataclass(frozen=True, slots=True)
class Request:
    """A command as it is sent, and sent again if it never arrived."""

    id: str
    data: bytes
    cap_bytes: int


@dataclass(slots=True)
class RequestBook:
    """Ids begin with `prefix`; no two are equal."""

    prefix: str
    _num_commands: int = field(init=False, default=0)
    _finished: list[str] = field(init=False, default_factory=list)
    _stored_bytes: int = field(init=False, default=0)

    def build(self, command: str, *, prelude: str, payload: bytes | None, cap_bytes: int, exact_head: bool) -> Request:
        """The next request. Raises ValueError for what a shell cannot be told."""
        encoded = wire.encode_shell_text(command)
        if payload is None and len(encoded) > wire.MAX_INLINE_COMMAND_BYTES:
            payload, command, prelude = encoded, "", prelude + _RUN_FROM_FILE
        self._num_commands += 1
        command_id = f"{self.prefix}{self._num_commands:07d}"
        data = wire.encode_run(command_id, cap_bytes=cap_bytes, prelude=prelude, command=command, exact_head=exact_head)
        if payload is not None:
            data = wire.encode_put(f"{command_id}.put", payload, exact_head=exact_head) + data
        return Request(command_id, self._add_forgetting(data), cap_bytes)

    def finish(self, request: Request) -> None:
        """It is answered."""
        self._finished.append(request.id)
        self._stored_bytes += len(request.data)

    def _add_forgetting(self, data: bytes) -> bytes:
        """Now and then: room is made before the command, its other files are removed while it runs."""
        is_full = self._stored_bytes > _FORGET_BYTES
        if not is_full and len(self._finished) < _FORGET_AFTER:
            return data
        forget = wire.encode_line("forget", *self._finished)
        self._finished, self._stored_bytes = [], 0
        return forget + data if is_full else data + forget
