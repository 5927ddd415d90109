"""What an API server answers, or that it does not, as one sentence."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

import urllib3
from kubernetes import client

from sweyard_cli.errors import UserError

REFUSALS = range(400, 500)
"""Statuses that say the request itself is at fault."""
_STREAM_REFUSED = re.compile(r"Handshake status (?P<status>\d+) .* -\+-\+- .* -\+-\+- (?P<body>.*)", re.DOTALL)
"""What the client makes of an answer in the place of a stream, with status 0."""


class UnreachableError(UserError):
    """The API server does not answer, or cannot now; a later call may succeed."""


@contextmanager
def told_plainly(what: str) -> Iterator[None]:
    """Raise UserError, or UnreachableError, in the place of the client's own errors. `what` was being done."""
    try:
        yield
    except client.ApiException as error:
        sentence = f"{what}: {reason_of(error)}"
        if _status_of(error) in REFUSALS:
            raise UserError(sentence) from error
        raise UnreachableError(sentence, exit_code=1) from error
    except urllib3.exceptions.HTTPError as error:
        cause = getattr(error, "reason", None) or error
        raise UnreachableError(f"{what}: the API server does not answer ({cause})", exit_code=1) from error


def reason_of(error: client.ApiException) -> str:
    """The server's own words where it has any."""
    refused = _STREAM_REFUSED.fullmatch(str(error.reason))
    try:
        message = json.loads((refused["body"] if refused else error.body) or "{}").get("message")
    except (ValueError, AttributeError):
        message = refused and refused["body"]
    return str(message or f"the API server answered {error.status} {error.reason}")


def _status_of(error: client.ApiException) -> int:
    refused = _STREAM_REFUSED.fullmatch(str(error.reason))
    return int(refused["status"] if refused else error.status or 0)
