"""YAML files of the user, read as kubectl reads them and checked before anything is started."""

from pathlib import Path
from typing import Any

from sweyard_api.validate import validate_text
from sweyard_api.yaml_text import load_documents
from sweyard_cli.errors import UserError

MAX_BYTES = 3 * 2**20
"""What an API server takes in one request."""


def read_text(file: Path) -> str:
    """Raises UserError for a file that is missing, a folder, too large, or no text."""
    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise UserError(
                f"{file}: holds more than {MAX_BYTES >> 20} MiB, which no cluster takes: is it the right file?"
            )
        return content.decode("utf-8")
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: is no UTF-8 text: save it as UTF-8") from error


def read_documents(file: Path) -> list[dict[str, Any]]:
    """Every document of a file, all valid. Raises UserError with a line for each problem."""
    text = read_text(file)
    if problems := validate_text(text, file=str(file)):
        raise UserError("\n".join(map(str, problems)))
    return load_documents(text)


def read_run(file: Path) -> dict[str, Any]:
    """The only document of a file, a valid TrainingRun. Raises UserError."""
    documents = read_documents(file)
    if len(documents) != 1:
        raise UserError(f"{file}: holds {len(documents)} documents; put the TrainingRun into a file of its own")
    kind = documents[0].get("kind")
    if kind != "TrainingRun":
        raise UserError(f"{file}: holds a {kind}, not a TrainingRun")
    return documents[0]
