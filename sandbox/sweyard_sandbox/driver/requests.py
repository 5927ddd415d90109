"""RequestBook: what is sent for each command, under an id of its own, and when the driver may forget it. Pure."""

from dataclasses import dataclass, field, replace

from sweyard_sandbox.driver import wire

_FORGET_AFTER = 64
_FORGET_BYTES = 4_000_000
_RUN_FROM_FILE = '\nexec 5<"$spool/$SWEYARD_COMMAND.put.$driver"\nlaunch=${launch% -c} command=/dev/fd/5'
"""By descriptor, for the spool is closed to other users; without -c, for the argument would be too long."""


@dataclass(frozen=True, slots=True)
class Request:
    """A command as it is sent, and sent again if it never arrived."""

    id: str
    command: str
    prelude: str
    payload: bytes | None
    cap_bytes: int
    forget: tuple[str, ...] = ()
    """Ids that are answered."""
    forget_first: bool = False
    """To make room before the command; else it is done while that runs."""

    @property
    def num_bytes(self) -> int:
        """About what the spool holds of it."""
        return len(self.command) + len(self.prelude) + len(self.payload or b"")

    def encode(self, ledger: str, *, exact_head: bool) -> bytes:
        """To be begun in the spool of `ledger` only."""
        data = wire.encode_run(
            self.id,
            ledger,
            cap_bytes=self.cap_bytes,
            prelude=self.prelude,
            command=self.command,
            exact_head=exact_head,
        )
        if self.payload is not None:
            data = wire.encode_put(f"{self.id}.put", self.payload, exact_head=exact_head) + data
        if not self.forget:
            return data
        forget = wire.encode_line("forget", ledger, *self.forget)
        return forget + data if self.forget_first else data + forget


@dataclass(slots=True)
class RequestBook:
    """Ids begin with `prefix`; no two are equal, and later ones are greater, as text too."""

    prefix: str
    _num_commands: int = field(init=False, default=0)
    _finished: list[str] = field(init=False, default_factory=list)
    _stored_bytes: int = field(init=False, default=0)

    def build(self, command: str, *, prelude: str, payload: bytes | None, cap_bytes: int) -> Request:
        """The next request. Raises ValueError for what a shell cannot be told."""
        encoded = wire.encode_shell_text(command)
        wire.encode_shell_text(prelude)
        if payload is None and len(encoded) > wire.MAX_INLINE_COMMAND_BYTES:
            payload, command, prelude = encoded, "", prelude + _RUN_FROM_FILE
        forget_first = self._stored_bytes > _FORGET_BYTES
        forget: tuple[str, ...] = ()
        if forget_first or len(self._finished) >= _FORGET_AFTER:
            forget = tuple(self._finished)
            self._finished, self._stored_bytes = [], 0
        return Request(self._next_id(), command, prelude, payload, cap_bytes, forget, forget_first)

    def renew(self, request: Request) -> Request:
        """The same command under another id, for a spool that knows nothing of those before."""
        return replace(request, id=self._next_id(), forget=())

    def finish(self, request: Request) -> None:
        """It is answered."""
        self._finished.append(request.id)
        self._stored_bytes += request.num_bytes

    def _next_id(self) -> str:
        self._num_commands += 1
        return f"{self.prefix}{self._num_commands:07d}"
