"""Server-sent events: a browser hears of what has changed, and of nothing else."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import step_row

from sweyard_cli.ui.directories import Directories
from sweyard_cli.ui.news import stream_news
from sweyard_cli.ui.sources import Sources


async def test_a_row_of_figures_and_a_new_run_are_news(make_run: Callable[..., Path]) -> None:
    run = make_run()
    stream = stream_news(Sources(Directories(run.parent)).stamps, interval_seconds=0.001)
    assert await anext(stream) == "event: hello\ndata: {}\n\n"
    silence = await anext(stream)
    assert silence.startswith(":"), "nothing has changed"
    with (run / "metrics" / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(step_row(3, 0.5)) + "\n")
    assert await anext(stream) == 'event: news\ndata: ["run _/run"]\n\n'
    (run.parent / "second" / "metrics").mkdir(parents=True)
    assert await anext(stream) == 'event: news\ndata: ["run _/second"]\n\n'
    await stream.aclose()
