"""Records that the operator writes for machines, as people read them beside other logs: pure."""

import json


def readable(text: str) -> str:
    """Of a record its level, logger, message and object, without its time, which is that of its line; any other line
    as it is. What has several lines goes on indented, so that no text looks like the line of another log."""
    try:
        record = json.loads(text) if text.startswith("{") else None
    except ValueError:
        return text
    if not isinstance(record, dict) or not {"level", "logger", "message"} <= record.keys():
        return text
    subject = f" ({record['object']})" if "object" in record else ""
    exception = f"\n{record['exception']}" if "exception" in record else ""
    told = f"{str(record['level']).upper()} {record['logger']}: {record['message']}{subject}{exception}"
    return told.replace("\n", "\n    ")
