"""The page: whole, self-contained, and safe to open whatever the model wrote."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import DOCUMENT, attempt, step_row

from sweyard_cli.report.page import render_page
from sweyard_cli.report.reading import MAX_MESSAGE_CHARACTERS
from sweyard_cli.report.write import write_report
from sweyard_cli.results.files import write_config
from sweyard_cli.results.run_results import read_results

MakeRun = Callable[..., Path]
VOID = {"meta", "br"}
DRAWN = {"line", "rect", "circle", "path"}
ATTACK = "<script>alert(1)</script><img src=x onerror=alert(2)>\"' onload='x</pre></details>"


class Page(HTMLParser):
    """Elements of a page; asserts that they are nested."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        assert tag in DRAWN
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    @property
    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}


def page_of(run: Path) -> Page:
    return Page(render_page(read_results(run)))


@pytest.mark.parametrize("without_cluster", [True, False])
def test_a_run_without_a_cluster_shows_no_engine_and_no_volume(make_run: MakeRun, without_cluster: bool) -> None:
    run = make_run()
    if without_cluster:
        (run / "run.lock").touch()
    text = " ".join(page_of(run).text)
    assert ("engine: vllm" in text, "storage:" in text) == (not without_cluster, not without_cluster)
    assert ("without what only a cluster has" in text) is without_cluster


def test_the_page_of_a_run_has_figures_curves_and_attempts(make_run: MakeRun) -> None:
    page = page_of(make_run())
    text = " ".join(" ".join(page.text).split())
    for expected in (
        "untrained",
        "after training",
        "2 of 4, 10 to 90 %",
        "Reward, mean of a step",
        "How attempts ended",
    ):
        assert expected in text
    charts = [attributes for tag, attributes in page.elements if tag == "svg" and attributes.get("role") == "img"]
    assert len(charts) == 6
    assert all(chart["aria-label"] for chart in charts)
    assert "details" in page.tags


def test_the_page_needs_nothing_from_elsewhere_and_runs_nothing(make_run: MakeRun) -> None:
    text = render_page(read_results(make_run()))
    page = Page(text)
    assert not page.tags & {"script", "link", "iframe", "img", "object", "embed", "base", "form"}
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "href", "style")]
    policy = next(
        attributes["content"] for tag, attributes in page.elements if tag == "meta" and "http-equiv" in attributes
    )
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert not re.search(r"url\(|@import|https?:", text)


UNTRUSTED: Mapping[str, dict[str, Any]] = {
    "in an observation": {"transcript": [{"role": "assistant", "content": "x"}, {"role": "user", "content": ATTACK}]},
    "in a reply": {"transcript": [{"role": "assistant", "content": ATTACK}]},
    "in a role": {"transcript": [{"role": ATTACK, "content": "alert(1)"}]},
    "in a patch": {"patch": f"diff --git a/x b/x\n@@ -1 +1 @@\n-{ATTACK}\n+{ATTACK}\n"},
    "in the tests' result": {"grading_log": ATTACK},
    "in a reason": {"grading_log": "", "infra_reason": ATTACK},
    "in a task's name": {"task_id": ATTACK},
    "in an outcome": {"outcome": ATTACK},
}


@pytest.mark.parametrize("fields", UNTRUSTED.values(), ids=UNTRUSTED)
def test_what_a_model_wrote_stays_text(make_run: MakeRun, fields: dict[str, Any]) -> None:
    attempts = {"step-000001": [{**attempt(), **fields}]}
    page = page_of(make_run(attempts=attempts))
    assert not page.tags & {"script", "img"}
    assert not [attributes for _, attributes in page.elements if "onerror" in attributes or "onload" in attributes]
    assert "alert(1)" in "".join(page.text)


def test_a_run_s_name_stays_text(make_run: MakeRun) -> None:
    page = page_of(make_run(summary={"run": ATTACK, "steps": 1, "evaluations": {}, "seconds": {}}))
    assert "script" not in page.tags


def test_huge_outputs_are_cut_with_a_mark(make_run: MakeRun) -> None:
    huge = "A" * 3_000_000
    messages = [{"role": "assistant", "content": huge}, {"role": "user", "content": huge}]
    fields = {"transcript": messages, "patch": huge, "grading_log": huge}
    text = render_page(read_results(make_run(attempts={"step-000001": [{**attempt(), **fields}]})))
    assert len(text) < 100_000
    assert f"{len(huge) - MAX_MESSAGE_CHARACTERS:,} characters left out" in text


def test_half_a_surrogate_pair_does_not_keep_the_page_from_being_written(make_run: MakeRun) -> None:
    halves = attempt(transcript=[{"role": "assistant", "content": "\ud83d"}], task_id="\udc00")
    run = make_run(attempts={"step-000001": [halves]})
    write_report(run)
    assert "U+D83D" in (run / "report.html").read_text(encoding="utf-8")


NOTHING_YET = {
    "before its first report": {"rows": [], "attempts": {}, "progress": None},
    "before its first step": {"rows": [], "attempts": {}, "progress": {"step": 0, "totalSteps": 30}},
    "with empty rollouts": {"rows": [], "attempts": {"step-000001": []}},
    "without any scored attempt": {
        "rows": [
            {
                "phase": "evaluation",
                "step": 0,
                **{f"eval/h/{n}": 0.0 for n in ("low", "attempts", "infra_failures")},
                "eval/h/solved_fraction": 0.0,
                "eval/h/high": 1.0,
            }
        ],
        "attempts": {},
    },
    "with figures that are no numbers": {"rows": [step_row(1, math.nan), step_row(2, math.inf)], "attempts": {}},
    "with one step": {"rows": [step_row(1, 0.5)], "attempts": {"step-000001": [attempt()]}},
}


@pytest.mark.parametrize("state", NOTHING_YET.values(), ids=NOTHING_YET)
def test_a_run_has_a_report_at_any_moment(make_run: MakeRun, state: dict[str, Any]) -> None:
    run = make_run(**state)
    write_report(run)
    page = Page((run / "report.html").read_text(encoding="utf-8"))
    coordinates = {"x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "d", "width", "height"}
    drawn = [value for tag, attributes in page.elements for name, value in attributes.items() if name in coordinates]
    assert not [value for value in drawn if value and ("nan" in value or "inf" in value)]
    assert (run / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_an_unfinished_run_is_said_to_be(make_run: MakeRun) -> None:
    run = make_run(progress={"step": 12, "totalSteps": 30, "message": "step 13: training"})
    assert "Not finished: step 12 of 30; last report: step 13: training." in " ".join(page_of(run).text)


def test_a_fetched_run_without_its_config_has_a_report(make_run: MakeRun) -> None:
    run = make_run()
    (run / "config.yaml").unlink()
    assert "Config" not in page_of(run).text
    write_config(run, DOCUMENT)
    page = page_of(run)
    assert "Config" in page.text
    assert "16 tasks, 8 attempts each" in page.text


def test_the_command_writes_where_it_is_told(sweyard: Callable[..., Any], make_run: MakeRun, tmp_path: Path) -> None:
    result = sweyard("report", make_run(), "-o", tmp_path / "mine.html")
    assert result.exit_code == 0
    assert (tmp_path / "mine.html").exists()
    assert (tmp_path / "mine.png").exists()
    assert str(tmp_path / "mine.html") in result.stdout


def test_a_name_that_ends_in_png_asks_for_the_curve_alone(
    sweyard: Callable[..., Any], make_run: MakeRun, tmp_path: Path
) -> None:
    picture = tmp_path / "mine.png"
    result = sweyard("report", make_run(), "-o", picture)
    assert (result.exit_code, result.stdout) == (0, f"{picture}\n")
    assert picture.read_bytes().startswith(b"\x89PNG")
