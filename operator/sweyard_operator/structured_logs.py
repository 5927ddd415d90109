"""One JSON object a line on standard error, with the object that the line is about."""

import json
import logging
from datetime import UTC, datetime


class JsonFormatter(logging.Formatter):
    """time, level, logger, message, and `object` where the call passed `extra={"object": ...}`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (subject := getattr(record, "object", None)) is not None:
            entry["object"] = str(subject)
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def setup_logging(level: int = logging.INFO) -> None:
    """Send all logs through the formatter; kopf's own only from warnings on, its failed requests not at all: they are
    three of many that fail with an API server, which `Contact` tells once for all."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("kopf").setLevel(logging.WARNING)
    logging.getLogger("kopf._cogs.clients.api").setLevel(logging.CRITICAL)
