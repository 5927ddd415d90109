"""The page in Chromium: every view, wide and narrow, light and dark, without a complaint in its console."""

import json
import os
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from benchmarks.browser import Page, browse
from tests.cli.conftest import ATTEMPTS, ROWS, attempt, step_row

from sweyard_cli.ui.directories import Directories
from sweyard_cli.ui.serve import listen, make_server
from sweyard_cli.ui.sources import Sources

pytestmark = pytest.mark.browser

NASTY = "<img src=x onerror=\"document.title='owned'\"> \x1b[2J \u202eevil"
READ = f"attempt?id={'step-1/t1/0'.replace('/', '%2F')}"
LONG_NAME = "an_ablation_whose_name_has_no_place_where_a_line_could_be_broken"
VIEWS = {
    "#/runs": "tbody tr",
    "#/runs/_/run": "figure.chart svg path",
    f"#/runs/_/{LONG_NAME}": "figure.chart svg path",
    "#/runs/_/run/attempts": ".sizer .row",
    f"#/runs/_/run/{READ}": ".turn.reply",
    f"#/runs/_/run/{READ}&with=step-1%2Ft1%2F1": ".columns.two .turn",
    "#/runs/_/run/wave": "canvas.cells",
    "#/pools": ".empty",
    "#/caches": ".empty",
}
"""By address, what is there once it is drawn."""
MANY_RULES = 20
"""Of axe's that a page keeps, if it was looked at."""


@pytest.fixture
def run(make_run: Callable[..., Path], tmp_path: Path) -> Path:
    """With one beside it that is damaged, and told in a sentence too long for any table, and one of a long name."""
    (tmp_path / "damaged" / "metrics").mkdir(parents=True)
    (tmp_path / "damaged" / "progress.json").write_text("[]")
    rows = [attempt("t1", transcript=[{"role": "user", "content": NASTY}, {"role": "assistant", "content": NASTY}])]
    reply = [{"role": "user", "content": "line\n" * 40}]
    steps = {**ATTEMPTS, "step-000001": [*rows, attempt("t1", "unsolved", index=1, transcript=reply)]}
    near_one = [{**row, "train/engine_ratio_mean": 1 + row["step"] / 1_000} for row in ROWS]
    made = make_run(attempts=steps, rows=near_one)
    shutil.copytree(made, tmp_path / LONG_NAME)
    return made


@pytest.fixture
def address(run: Path) -> Iterator[str]:
    listening = listen("127.0.0.1", 0)
    server = make_server(Sources(Directories(run.parent)), None, news_seconds=0.05)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    server.should_exit = True
    thread.join()


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    async with browse() as opened:
        yield opened
        assert opened.complaints == []


async def show(page: Page, address: str, view: str) -> None:
    await page.open(address + view)
    await page.wait(f"document.querySelector({json.dumps(VIEWS[view])})")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
async def test_every_view_is_drawn_and_none_is_wider_than_the_window(
    page: Page, address: str, width: int, scheme: str
) -> None:
    await page.resize(width, 844)
    await page.prefer(scheme)
    for view in VIEWS:
        await page.open("about:blank")
        await show(page, address, view)
        for box in ("documentElement", "querySelector('main')"):
            assert await page.ask(f"document.{box}.scrollWidth <= document.{box}.clientWidth"), (view, box)
        assert not await page.ask("document.querySelector('.trouble')?.textContent"), view


@pytest.mark.axe
@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
async def test_no_view_shuts_anybody_out(page: Page, address: str, width: int, scheme: str) -> None:
    axe = Path(os.environ["SWEYARD_AXE"]).read_text(encoding="utf-8")
    await page.call("Page.setBypassCSP", enabled=True)
    await page.resize(width, 844)
    await page.prefer(scheme)
    found = []
    for view in VIEWS:
        await page.open("about:blank")
        await show(page, address, view)
        await page.ask(f"{axe}; document.querySelectorAll('details').forEach((each) => {{ each.open = true; }})")
        if view.startswith(f"#/runs/_/run/{READ}"):
            await page.wait("document.querySelector('.token')")
        told = await page.ask("axe.run().then(({ passes, violations }) => [passes.length, violations])")
        assert told[0] > MANY_RULES, view
        found += [(view, one["help"]) for one in told[1] if one["impact"] in ("serious", "critical")]
    assert found == []


async def test_what_a_model_wrote_is_text_with_nothing_hidden_in_it(page: Page, address: str) -> None:
    await show(page, address, f"#/runs/_/run/{READ}")
    said = await page.ask("document.querySelector('.turn.reply pre').textContent")
    assert said == NASTY.replace("\x1b", "␛").replace("\u202e", "<U+202E>")
    assert await page.ask("document.title") != "owned"
    with pytest.raises(RuntimeError, match="TrustedHTML"):
        await page.ask("document.body.innerHTML = '<b>x</b>'")
    page.complaints.clear()


async def test_a_step_that_ends_is_drawn_without_asking(page: Page, address: str, run: Path) -> None:
    await show(page, address, "#/runs/_/run")
    await page.wait("document.getElementById('live').dataset.state === 'live'")
    with (run / "metrics" / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(step_row(len(ROWS), 0.875)) + "\n")
    await page.wait("[...document.querySelectorAll('.told b')].some((told) => told.textContent === '0.875')")


async def test_no_two_marks_of_an_axis_read_alike(page: Page, address: str) -> None:
    await show(page, address, "#/runs/_/run")
    marks = "[...each.querySelectorAll('text[x=\"40\"]')].map((mark) => mark.textContent)"
    axes = await page.ask(f"[...document.querySelectorAll('.chart')].map((each) => {marks})")
    assert ["1.001", "1.0015", "1.002"] in axes
    assert [axis for axis in axes if len(set(axis)) < len(axis)] == []


async def test_what_is_out_of_bounds_is_told_above_the_curves_and_in_the_list(
    page: Page, address: str, run: Path
) -> None:
    row = {**step_row(len(ROWS), 0.5), "train/engine_kl": 0.04}
    with (run / "metrics" / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")
    await show(page, address, "#/runs/_/run")
    await page.wait("document.querySelector('.findings b')")
    told = await page.ask("document.querySelector('.findings b').textContent")
    assert told == f"KL between engine and trainer 0.04, above 0.01 in step {row['step']}"
    assert await page.ask("document.querySelector('.bound title').textContent.endsWith('sound up to 0.01')")
    await show(page, address, "#/runs")
    assert await page.ask("document.querySelector('.warns').textContent") == "1 warning"


async def test_a_run_that_cannot_be_read_is_named_with_the_reason_and_waits_for_nothing(
    page: Page, address: str
) -> None:
    await page.open(f"{address}#/runs/_/damaged")
    await page.wait("document.querySelector('.trouble')")
    assert await page.ask("document.querySelector('h1').textContent") == "damaged"
    assert not await page.ask("document.querySelector('.waiting')")
    [complaint] = page.complaints  # the browser's own, of the status
    assert "400" in complaint
    page.complaints.clear()


async def test_long_output_is_folded_and_opens(page: Page, address: str) -> None:
    await show(page, address, f"#/runs/_/run/{READ}&with=step-1%2Ft1%2F1")
    for told, is_folded in (("Show all", True), ("Show less", False), ("Show all", True)):
        assert await page.ask("document.querySelector('.unfold').textContent") == told
        assert await page.ask("Boolean(document.querySelector('.said.long'))") is is_folded
        await page.ask("document.querySelector('.unfold').click()")


async def test_keys_lead_everywhere(page: Page, address: str) -> None:
    await show(page, address, "#/runs")
    await page.press("?")
    await page.wait("document.querySelector('dialog[open] kbd')")
    await page.ask("location.hash = '#/pools'")
    await page.wait("document.title.startsWith('Sandboxes') && !document.querySelector('dialog[open]')")
    for key in "gi":
        await page.press(key)
    await page.wait("location.hash === '#/caches'")
    await show(page, address, "#/runs/_/run/attempts")
    await page.press("j")
    await page.wait("document.activeElement.closest('.row')")
    await page.press("/")
    await page.wait("document.activeElement.type === 'search'")


async def test_times_are_told_as_people_read_them(page: Page, address: str) -> None:
    await page.open(address)
    told = await page.ask("import('/static/dom.js').then(({ duration }) => [0, 6.1e-5, 0.25, 61, 3720].map(duration))")
    assert told == ["0 s", "< 0.01 s", "0.25 s", "1 min 01 s", "1 h 02 min"]


async def test_a_search_and_a_filter_are_in_the_address(page: Page, address: str) -> None:
    await show(page, address, "#/runs/_/run/attempts")
    await page.ask("document.querySelector('input[type=search]').focus()")
    await page.call("Input.insertText", text="as solved")
    await page.wait("location.hash.endsWith('?text=as+solved')")
    await page.wait("document.querySelector('.sub').textContent.includes(' of ')")
    await page.ask("document.querySelector('.sizer a').click()")
    await page.wait("document.querySelector('mark')?.textContent === 'as solved'")
