"""Words for a task: what its failing tests observe, and nothing about the place or the nature of the fault."""

import re

FRAME_UNITTEST = re.compile(r'File "(?P<file>[^"]+)", line \d+, in \S+\n\s+(?P<code>[^\n]+)')
FRAME_PYTEST = re.compile(r"^(?P<file>\S+\.py):\d+: in [^\n]+\n\s+(?P<code>[^\n]+)", re.MULTILINE)
ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}")
OBSERVATION_CHARACTERS = 400


def observation(test_file: str, message: str) -> str:
    """The statement of the test that failed, and the exception it saw."""
    frames = [*FRAME_UNITTEST.finditer(message), *FRAME_PYTEST.finditer(message)]
    statements = [frame["code"].strip() for frame in frames if frame["file"].endswith(test_file)]
    errors = [line[1:].strip() for line in message.splitlines() if line.startswith("E  ")]
    if not errors:
        errors = [
            line for line in message.splitlines() if re.match(r"[A-Za-z_.]+(Error|Exception|Exit|Iteration)\b", line)
        ]
    seen = [*statements[-1:], *(errors[:3] or message.strip().splitlines()[-1:])]
    return ADDRESS.sub("0x...", "\n".join(f"    {line}" for line in seen))[:OBSERVATION_CHARACTERS]


def problem_statement(package: str, failures: list[tuple[str, str]]) -> str:
    """Failures are (test id, message), the most specific first."""
    test, message = failures[0]
    file, _, name = test.partition("::")
    count = "One test fails" if len(failures) == 1 else f"{len(failures)} tests fail, among them"
    return (
        f"`{package}` does not do what its tests ask for. {count} `{name.replace('::', '.')}`:\n\n"
        f"{observation(file, message)}\n\n"
        f"Find the fault in the repository and repair it. The failing tests are not part of the repository.\n"
    ).replace("fails `", "fails, `")
