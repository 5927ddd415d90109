"""fetch_run: the files of a run on a cluster as a directory of this machine, whole or not at all."""

import shutil
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol

from sweyard_cli.cluster.connection import Connection
from sweyard_cli.disk import writes_to
from sweyard_cli.errors import UserError
from sweyard_cli.fetch.lender import Place
from sweyard_cli.fetch.lent_volume import lent
from sweyard_cli.fetch.listing import LIST, Entry, Listing, read_listing
from sweyard_cli.fetch.parts import Part, places
from sweyard_cli.fetch.place import Cluster
from sweyard_cli.fetch.receiving import READ, receive
from sweyard_cli.fetch.staging import check_free, keep_known, staging
from sweyard_cli.results.files import CONFIG_FILE

TIMEOUT_SECONDS = 120.0
_BATCH_FILES = 200
"""Whose names fit into the buffers of a stream, so that neither side waits for the other."""
_SPARE_BYTES = 64 << 20


class Told(Protocol):
    """Who is told how far it is."""

    def begin(self, listing: Listing, missing: Sequence[Entry], place: Place) -> None:
        """What there is, and what of it comes."""
        ...

    def came(self, num_bytes: int) -> None:
        """A piece."""
        ...


class Volume(Protocol):
    """Where scripts for sh run beside the files."""

    def run(self, script: str, arguments: Sequence[str], given: bytes = b"") -> Iterator[bytes]:
        """What it says. Raises UserError."""
        ...


def fetch_run(
    connection: Connection,
    run: str,
    output: Path,
    told: Told,
    *,
    parts: Collection[Part] = (),
    image: str | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> Place:
    """Fill `output`, by a pod that is gone afterwards; where the files were. Raises UserError, OSError."""
    place, config = Cluster(connection, run).find(image)
    check_free(output, place)
    pod = f"{run[:40].rstrip('-.')}-lender-{uuid.uuid4().hex[:8]}"
    with lent(connection, place, pod, deadline_seconds=timeout_seconds) as volume:
        copy_files(volume, place, config, output, places(parts), told)
    return place


def copy_files(volume: Volume, place: Place, config: str, output: Path, wanted: Sequence[str], told: Told) -> None:
    """Of a lent volume what is wanted, and beside it the run's config. Raises UserError, OSError."""
    listing = read_listing(volume.run(LIST, wanted), wanted)
    if not listing.entries:
        raise UserError(f"TrainingRun {place.namespace}/{place.run} has written no {', '.join(wanted)} yet")
    with staging(output, place) as beside, writes_to(beside):
        missing = keep_known(listing.entries, wanted, output, beside)
        _check_room(beside, sum(entry.num_bytes for entry in missing))
        told.begin(listing, missing, place)
        remaining = iter(missing)
        while batch := list(islice(remaining, _BATCH_FILES)):
            _receive_batch(volume, batch, beside, place, told.came)
        (beside / CONFIG_FILE).unlink(missing_ok=True)  # which may be the same file as the one that is in place
        (beside / CONFIG_FILE).write_text(config, encoding="utf-8")


def _receive_batch(
    volume: Volume, batch: Sequence[Entry], beside: Path, place: Place, came: Callable[[int], None]
) -> None:
    names = "".join(f"{entry.name}\n" for entry in batch).encode()
    chunks = volume.run(READ, [str(len(names))], names)
    gone = receive(batch, chunks, beside, is_live=place.is_live, told=came)
    for _ in chunks:  # to its end, which says whether all went well
        raise UserError("the pod sends more than the files that were asked for", exit_code=1)
    if gone and not place.is_live:
        raise UserError(f"{gone[0].name} was listed and cannot be read: run the same command again", exit_code=1)


def _check_room(beside: Path, num_bytes: int) -> None:
    free = shutil.disk_usage(beside).free
    if num_bytes + _SPARE_BYTES > free:
        raise UserError(
            f"no space left for {beside}: {num_bytes / 1e9:.1f} GB come and {free / 1e9:.1f} GB are free; make some, "
            "or name another place by --to"
        )
