"""The page: one self-contained HTML file. Jinja escapes every value; only our own drawings pass as they are."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from sweyard_cli.errors import UserError
from sweyard_cli.figures import duration, interval, percent, plural
from sweyard_cli.report.charts import charts_of
from sweyard_cli.report.choose import choose_attempts
from sweyard_cli.report.config_shown import DAMAGED, shown_config
from sweyard_cli.report.reading import read_chapters
from sweyard_cli.report.text import visible
from sweyard_cli.results.evaluations import SourceFigure
from sweyard_cli.results.run_results import MAX_STEPS_READ, RunResults
from sweyard_cli.results.soundness import findings_of


def render_page(results: RunResults) -> str:
    """The report of a run, finished or not."""
    template = report_templates(autoescape=True).get_template("page.html.j2")
    return template.render(
        **told_of(results),
        charts=charts_of(results),
        is_sampled=len(results.steps) >= MAX_STEPS_READ,
        style=files("sweyard_cli.report").joinpath("page.css").read_text(encoding="utf-8"),
    )


def report_templates(*, autoescape: bool) -> Environment:
    """Those beside this module."""
    environment = Environment(
        loader=PackageLoader("sweyard_cli.report", "."),
        autoescape=autoescape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(percent=percent, detail=detail_of)
    return environment


def told_of(results: RunResults) -> dict[str, Any]:
    """What every form of the report tells, as values for its template."""
    sources = list(dict.fromkeys(figure.source for e in results.evaluations for figure in e.sources))
    return {
        "name": visible(results.name),
        "state": state_of(results),
        "findings": findings_of(results.rows),
        "facts": facts_of(results.config),
        "sources": sources,
        "evaluations": [(e.title, _by_source(e.sources, sources)) for e in results.evaluations],
        "repositories": results.evaluations[-1].by_repository if results.evaluations else [],
        "last_evaluation": results.evaluations[-1].title if results.evaluations else "",
        "chapters": read_chapters(choose_attempts(results)),
        "config": shown_config(results.config, without_cluster=results.is_local),
        "is_local": results.is_local,
    }


def detail_of(figure: SourceFigure) -> str:
    """What there is to say of a share of solved attempts."""
    parts = [
        f"{figure.solved} of {figure.attempts}, {interval(figure.low, figure.high)}",
        *(f"{name} {percent(value)}" for name, value in figure.of_several),
        f"without best@k: {figure.unverified}" if figure.unverified else "",
        f"{figure.infra_failures} lost to infrastructure" if figure.infra_failures else "",
        f"{figure.set_aside} tasks set aside: {figure.set_aside_cause}" if figure.set_aside else "",
    ]
    return "; ".join(filter(None, parts))


def _by_source(figures: tuple[SourceFigure, ...], sources: list[str]) -> list[SourceFigure | None]:
    known = {figure.source: figure for figure in figures}
    return [known.get(source) for source in sources]


def state_of(results: RunResults) -> str:
    """One sentence: how far the run is, and how long it took."""
    if results.is_finished:
        seconds = sum(float(value) for value in results.summary.get("seconds", {}).values())
        done = plural(int(results.summary.get("steps", 0)), "training step") if results.trains else "evaluated"
        return f"Finished: {done} in {duration(seconds)}."
    step, total = results.progress.get("step", 0), results.progress.get("totalSteps", 0)
    message = results.progress.get("message", "")
    place = f"step {step} of {total}" if total else "before its end"
    return f"Not finished: {place}" + (f"; last report: {message}." if message else ".")


def facts_of(config: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """What was trained on what, from the resolved config. Raises UserError where it is none."""
    try:
        return list(_facts(config)) if config else []
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(DAMAGED) from error


def _facts(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    scratch = config["model"].get("scratch")
    model = (
        f"{scratch['layers']} layers of {scratch['hiddenSize']}, from scratch" if scratch else config["model"]["name"]
    )
    yield "model", str(model)
    yield from _trained_on(config)
    yield "agent", str(config["agent"]["type"])
    if config["mode"] == "rl":
        yield "algorithm", str(config["algorithm"]["estimator"])
        rollout = config["rollout"]
        yield "a step", f"{rollout['groupsPerStep']} tasks, {rollout['groupSize']} attempts each"
    if config.get("preset"):
        yield "preset", str(config["preset"])


def _trained_on(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if config["mode"] == "sft":
        yield "trajectories", ", ".join((*config["sft"]["datasets"], *config["sft"]["rollouts"]))
    elif config["mode"] == "rl":
        yield "tasks", str(config["tasks"]["train"]["dataset"])
