"""What a log of R2E-Gym's tests says. Pure.

The log ends in a summary: a line with `short test summary info`, then a line `STATUS file::Class::test` a test, with
` - message` after failures. Names are compared without file, joined by dots, and cut at the first ` - `.
"""

import re
from collections import defaultdict
from collections.abc import Mapping

HEADER = "short test summary info"
ANSI = re.compile(r"\x1b\[[0-9;]*m|\r")
LINE = re.compile(r"(PASSED|FAILED|ERROR) (.+)")


def plain(log: str) -> str:
    """Without colours and carriage returns."""
    return ANSI.sub("", log)


def normal_names(statuses: Mapping[str, str]) -> dict[str, str]:
    """Test names as they are compared; of two that become the same, the later in alphabetical order counts."""
    cleaned = {plain(name): status for name, status in statuses.items()}
    return {name.split(" - ")[0]: cleaned[name] for name in sorted(cleaned)}


def official_statuses(log: str) -> dict[str, str]:
    """As R2E-Gym reads a log: the status is the first word of its list that occurs anywhere in a line.

    Only the text between the first and the second header counts.
    """
    statuses = {}
    for line in log.split(HEADER)[1].split("\n") if HEADER in log else ():
        status = next((word for word in ("PASSED", "FAILED", "ERROR") if word in line), None)
        if status is not None:
            name = ".".join(line.split("::")[1:])
            statuses[name if status == "PASSED" else name.split(" - ")[0]] = status
    return statuses


def official_verdict(log: str, expected: Mapping[str, str]) -> bool:
    """R2E-Gym's rule: as many tests as expected, each with its expected status; a nameless one is not looked at."""
    found, wanted = normal_names(official_statuses(log)), normal_names(expected)
    return len(found) == len(wanted) and all(wanted.get(name) == status for name, status in found.items() if name)


def reports(log: str) -> dict[str, list[str]]:
    """Every status that the summary gives a test: only a first word is a status. Collection errors keep their line."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in log.split(HEADER, 1)[1].split("\n") if HEADER in log else ():
        if match := LINE.fullmatch(line.rstrip()):
            status, rest = match.groups()
            test = rest.split(" - ")[0]
            found[".".join(test.split("::")[1:]) or test].append(status)
    return dict(found)


def problems(log: str, expected: Mapping[str, str]) -> list[str]:
    """Why the log does not show, beyond doubt, what was expected; empty if it does."""
    found, wanted = reports(log), normal_names(expected)
    said = [] if log.count(HEADER) == 1 else [f"the log has {log.count(HEADER)} summaries"]
    if len(found) != len(wanted):
        said.append(f"{len(found)} tests were reported, {len(wanted)} were expected")
    for name, status in wanted.items():
        seen = sorted(set(found.get(name, ())))
        if seen != [status]:
            said.append(f"{name} {' and '.join(seen).lower() or 'missing'}, expected {status.lower()}")
    return said + [f"a result for {name}, which was not expected" for name in found if name not in wanted]
