"""What can go wrong between the operator and the API server, as types."""

import json
import logging
import re
from collections.abc import Mapping


class OperatorError(Exception):
    """Root of what this package raises on purpose."""


class ApiError(OperatorError):
    """The API server refused; `reason` and `message` are its own words."""

    def __init__(self, status: int, reason: str, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_seconds = retry_after_seconds


class UnauthorizedError(ApiError):
    """401: the credentials are not accepted."""


class ForbiddenError(ApiError):
    """403: RBAC, quota, pod security or another admission rule; the message says which. Also what an admission webhook
    refuses with a status of its own, or by not answering."""

    @property
    def is_quota(self) -> bool:
        """True if a ResourceQuota or a limit of one said no."""
        return "exceeded quota" in self.message or "failed quota" in self.message


class NotFoundError(ApiError):
    """404."""

    @property
    def is_unserved(self) -> bool:
        """True if the server does not know the kind at all."""
        return not self.reason or "could not find the requested resource" in self.message


class AlreadyExistsError(ApiError):
    """409 on create: an object of that name is there."""


class ConflictError(ApiError):
    """409: a precondition on UID or resourceVersion failed, or another manager owns the field."""


class GoneError(ApiError):
    """410: that resourceVersion is no longer known; list again."""


class InvalidError(ApiError):
    """422, 400 or 413: the object breaks its schema or a rule, or is too large, or a JSON patch's test found another
    value."""

    @property
    def is_rule(self) -> bool:
        """True if it would break one again, however fresh what was looked at is."""
        return " is invalid: " in self.message


class TooManyRequestsError(ApiError):
    """429 that lasted beyond all retries."""


class ServerError(ApiError):
    """5xx that lasted beyond all retries."""


class UnreachableError(OperatorError):
    """No answer from the API server: refused, reset or timed out beyond all retries."""


class StreamDeadError(OperatorError):
    """A watch said nothing, not even a bookmark, for longer than a live one can."""


OUTAGES = (UnreachableError, ServerError, TooManyRequestsError)
"""No fault of the request: all others fail as well."""


def log_level(error: BaseException) -> int:
    """At which whoever meets it logs it: outages are told once for all, by `Contact`."""
    return logging.DEBUG if isinstance(error, OUTAGES) else logging.WARNING


_BY_STATUS: Mapping[int, type[ApiError]] = {
    400: InvalidError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    413: InvalidError,
    422: InvalidError,
    429: TooManyRequestsError,
}

_ADMISSION = re.compile(
    r'failed calling webhook "|^admission webhook "[^"]+" denied the request|ValidatingAdmissionPolicy \'[^\']+\' with'
)
"""Of whatever status: who denies chooses it, and a webhook that cannot be reached makes the API server answer 500."""


def is_admission(status: int, body: bytes) -> bool:
    """Whether admission of this one object answers so, and not the API server for all."""
    return status >= 400 and _ADMISSION.search(_told(body)[1]) is not None


def api_error(status: int, body: bytes, headers: Mapping[str, str]) -> ApiError:
    """The typed error of a reply with status >= 400; `body` is a Status object, or text from a proxy."""
    reason, message = _told(body)
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
    if is_admission(status, body):
        kind = ForbiddenError
    if reason == "AlreadyExists":
        kind = AlreadyExistsError
    retry_after = headers.get("Retry-After", "")
    seconds = float(retry_after) if retry_after.isdigit() else None
    return kind(status, reason, message, retry_after_seconds=seconds)


def _told(body: bytes) -> tuple[str, str]:
    """Reason and message of a reply."""
    text = body[:1_000].decode(errors="replace")
    try:
        answer = json.loads(body)
    except ValueError:
        return "", text
    if not isinstance(answer, dict):
        return "", text
    return str(answer.get("reason") or ""), str(answer.get("message") or text)
