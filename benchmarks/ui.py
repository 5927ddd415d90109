"""The page in a real browser: how soon it shows something, how fast squares are painted, how long a search takes.

`python -m benchmarks.ui [--attempts N] [--tokens T]` needs Chromium. It writes a store of attempts, serves it, and
opens it with an empty cache. Each step has the attempts of `benchmarks.rollouts` under names of its own, encoded once:
to encode a hundred thousand would take longer than all that is measured. The last line is JSON:

- `first_view_s`: from asking for the page to the list of runs; `blank_s`: the same for an answer of three bytes
- `list_100k_s`: from asking for the list of all attempts to its first rows, nothing of it read before;
  `list_100k_cpu_s`, and so below: what of that is this process's processor time, which other work on the machine
  changes little
- `search_100k_s`: words that no attempt holds, nor the characters that they are of, so that nothing need be read
- `scan_100k_s`: numbers that no attempt has in this order, so that every transcript, patch and log is read;
  `plain_search_s`: the same by reading the columns into Python and asking each text, from a tenth of the files
- `first_match_s`: to the first rows of a search that all attempts match
- `pool_512_fps`, `pool_5000_fps`: frames a second while a tenth of that many squares change in each; `dom_512_fps`: the
  same 512 as elements of their own
"""

import argparse
import asyncio
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from benchmarks.browser import Page, browse
from benchmarks.figures import print_figures
from benchmarks.rollouts import ATTEMPTS_PER_STEP, make_attempt

from sweyard_cli.ui.directories import Directories
from sweyard_cli.ui.serve import listen, make_server
from sweyard_cli.ui.sources import Sources
from sweyard_trainer.rollouts.codec import decode_plain, encode
from sweyard_trainer.rollouts.files import ROLLOUTS, SEALED, find_files, step_label
from sweyard_trainer.rollouts.reading import iterate_batches
from sweyard_trainer.rollouts.schema import SCHEMA
from sweyard_trainer.rollouts.sealed import write_parquet

ABSENT = "no such words anywhere"
SCATTERED = "99999 99999 99999"
"""Any three characters of it are in most attempts."""
COMMON = "package-"
RUN = "run"
_TENTH = 10
_SCRIPT = Path(__file__).with_name("ui_frames.js")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ui", description=__doc__)
    parser.add_argument("--attempts", type=int, default=100_000)
    parser.add_argument("--tokens", type=int, default=100, help="of each attempt; the page's lists read none of them")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name) / RUN
        write_store(directory / ROLLOUTS, arguments.attempts, arguments.tokens)
        (directory / "progress.json").write_text(json.dumps({"phase": "rl", "step": 1, "totalSteps": 2}))
        with served(Path(name)) as address:
            figures = asyncio.run(measure(address, arguments.attempts))
        figures["plain_search_s"] = round(search_plainly(directory / ROLLOUTS), 2)
    print_figures(figures)


def write_store(rollouts: Path, attempts: int, num_tokens: int) -> None:
    """A sealed file a step."""
    rollouts.mkdir(parents=True)
    random = np.random.default_rng(0)
    rows = [encode(make_attempt(random, 1, number, num_tokens)) for number in range(ATTEMPTS_PER_STEP)]
    first_step = pa.Table.from_batches(rows, SCHEMA).combine_chunks()
    for step, first in enumerate(range(0, attempts, ATTEMPTS_PER_STEP), 1):
        with (rollouts / f"{step_label(step)}{SEALED}").open("wb") as file:
            write_parquet(file, in_step(first_step.slice(0, attempts - first), step).to_batches())


def in_step(table: pa.Table, step: int) -> pa.Table:
    """The attempts of step 1 under the names of another."""
    for name in ("attempt_id", "group_id"):
        number = table.schema.get_field_index(name)
        named = pc.replace_substring_regex(table[name], pattern="^1/", replacement=f"{step}/")
        table = table.set_column(number, table.schema.field(number), named)
    return table


@contextmanager
def served(root: Path) -> Iterator[str]:
    """The page of a directory, by a thread of this process; its address."""
    listening = listen("127.0.0.1", 0)
    server = make_server(Sources(Directories(root)), None)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


async def measure(address: str, attempts: int) -> dict[str, float]:
    """In one tab; raises PageError where the page complained of anything."""
    async with browse() as page:
        await page.resize(1280, 800)
        blank, _ = await time_until(page, f"{address}/healthz", "document.body?.textContent.includes('ok')")
        first, _ = await time_until(page, f"{address}/", "document.querySelector('tbody tr')")
        rows = "document.querySelectorAll('.sizer .row').length > 5"
        listed, listed_cpu = await time_until(page, f"{address}/#/runs/_/{RUN}/attempts", rows)
        none = f"document.querySelector('.sub')?.textContent.startsWith('0 of {attempts:,}')"
        search = f"{address}/#/runs/_/{RUN}/attempts?text="
        searched, searched_cpu = await time_until(page, search + quote(ABSENT), none)
        first_match, _ = await time_until(page, search + quote(COMMON), rows)
        scanned, scanned_cpu = await time_until(page, search + quote(SCATTERED), none)
        await page.ask(_SCRIPT.read_text(encoding="utf-8"))
        frames = {
            "pool_512_fps": await page.ask("pageFrames(512)"),
            "pool_5000_fps": await page.ask("pageFrames(5000)"),
            "dom_512_fps": await page.ask("elementFrames(512)"),
        }
        if page.complaints:
            raise SystemExit("\n".join(page.complaints))
    return {
        "attempts": attempts,
        "first_view_s": round(first, 3),
        "blank_s": round(blank, 3),
        "list_100k_s": round(listed, 2),
        "list_100k_cpu_s": round(listed_cpu, 2),
        "search_100k_s": round(searched, 2),
        "search_100k_cpu_s": round(searched_cpu, 2),
        "first_match_s": round(first_match, 2),
        "scan_100k_s": round(scanned, 2),
        "scan_100k_cpu_s": round(scanned_cpu, 2),
        **{name: round(value, 1) for name, value in frames.items()},
    }


async def time_until(page: Page, url: str, script: str) -> tuple[float, float]:
    """Seconds until an expression is true of a page that is loaded anew: of the clock, and of this process."""
    await page.open("about:blank")
    began, began_cpu = time.perf_counter(), time.process_time()
    await page.open(url)
    await page.wait(script)
    return time.perf_counter() - began, time.process_time() - began_cpu


def search_plainly(rollouts: Path) -> float:
    """Seconds that all files would take, from every tenth."""
    columns = ("attempt_id", "transcript", "patch", "grading_log")
    paths = list(find_files(rollouts).values())[::_TENTH]
    began = time.perf_counter()
    for path in paths:
        for batch in iterate_batches(path, columns):
            for row in decode_plain(batch, columns):
                texts = [row["patch"], row["grading_log"], *(message["content"] for message in row["transcript"])]
                assert not any(SCATTERED in text.lower() for text in texts)
    return (time.perf_counter() - began) * len(find_files(rollouts)) / len(paths)


if __name__ == "__main__":
    main()
