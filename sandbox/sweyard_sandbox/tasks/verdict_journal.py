"""Verdicts on mutations, on disk, so that an interrupted making goes on where it was."""

import json
from pathlib import Path
from typing import Any

from sweyard_sandbox.tasks.mutation.find import Mutation
from sweyard_sandbox.tasks.verify import Verdict


class VerdictJournal:
    """Those of one package, by its name, version and runner."""

    def __init__(self, path: Path, package: str) -> None:
        self.path = path
        self.package = package
        text = path.read_bytes() if path.exists() else b""
        whole = text[: text.rfind(b"\n") + 1]
        if whole != text:
            path.write_bytes(whole)  # the last line was cut off by an interruption
        entries = [entry for line in whole.splitlines() if (entry := _entry(line))]
        self.verdicts = {entry["key"]: entry["verdict"] for entry in entries if entry["package"] == package}

    def get(self, mutation: Mutation) -> Verdict | None:
        """What was found before; None if it was never verified."""
        known = self.verdicts.get(mutation.key)
        if known is None:
            return None
        failures = tuple((test, message) for test, message in known["failures"])
        return Verdict(known["rejected"], failures, tuple(known["pass_to_pass"]))

    def put(self, mutation: Mutation, verdict: Verdict) -> None:
        """Keep what was found."""
        entry = {"package": self.package, "key": mutation.key, "verdict": verdict.as_dict()}
        with self.path.open("a") as file:
            file.write(json.dumps(entry) + "\n")


def _entry(line: bytes) -> dict[str, Any] | None:
    """None for a line that a power failure left unwritten: what it told is verified again."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and entry.keys() >= {"package", "key", "verdict"} else None
