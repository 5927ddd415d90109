"""What the page's server answers of a run's files."""

import asyncio
import json
import math
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import numpy as np
import pytest
from anyio.to_thread import current_default_thread_limiter
from starlette.requests import Request
from starlette.testclient import TestClient
from tests.cli.conftest import attempt, step_row, write_attempts

from sweyard_cli.ui.app import answering, make_app
from sweyard_cli.ui.directories import Directories
from sweyard_cli.ui.sources import Sources
from sweyard_trainer.rollouts.seen_tokens import SeenTokens, write_seen

MakeRun = Callable[..., Path]
Get = Callable[..., Any]


def client_of(root: Path) -> TestClient:
    return TestClient(make_app(Sources(Directories(root)), None))


@pytest.fixture
def get(make_run: MakeRun) -> Get:
    """The answer at a path below the run's own."""
    client = client_of(make_run())

    def answer(path: str, status: int = 200, **parameters: Any) -> Any:
        response = client.get(f"/api/runs/_/run{path}", params=parameters)
        assert response.status_code == status, response.text
        return response.json()

    return answer


def ids(answer: Any) -> list[str]:
    return [row["attempt_id"] for row in answer["rows"]]


def test_runs_are_found_in_the_directory_that_holds_them_and_in_their_own(make_run: MakeRun) -> None:
    run = make_run()
    (run.parent / "notes").mkdir()
    for root in (run, run.parent):
        [line] = client_of(root).get("/api/runs").json()
        assert (line["where"], line["name"], line["step"], line["spark"]) == ("_", "run", 2, [0.25, 0.75])


def test_a_damaged_run_is_told_as_that_and_hides_no_other(make_run: MakeRun) -> None:
    run = make_run()
    (run.parent / "broken" / "rollouts").mkdir(parents=True)
    (run.parent / "broken" / "progress.json").write_text("[]")
    broken, whole = client_of(run.parent).get("/api/runs").json()
    assert (broken["phase"], whole["name"]) == ("Damaged", "run")
    assert "holds no JSON object" in broken["message"]


def test_figures_are_columns_by_phase_with_what_the_attempts_tell(get: Get) -> None:
    figures = get("/figures")
    assert figures["phases"]["rl"]["step"] == [1, 2]
    assert figures["phases"]["rl"]["figures"]["rollout/reward_mean"] == [0.25, 0.75]
    assert [row["sources"]["heldout"]["solved_fraction"] for row in figures["evaluations"]] == [0.0, 0.25, 0.5]
    assert figures["outcomes"] == {
        "step": [1, 2],
        "values": [{"unsolved": 1, "solved": 1, "max_turns": 1}, {"solved": 1, "env_infra": 1}],
    }


def test_what_is_no_number_is_null(make_run: MakeRun) -> None:
    run = make_run(rows=[step_row(1, math.nan), {**step_row(2, 0.5), "train/extra": math.inf}])
    figures = client_of(run).get("/api/runs/_/run/figures").json()["phases"]["rl"]["figures"]
    assert (figures["rollout/reward_mean"], figures["train/extra"]) == ([None, 0.5], [None, None])


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"outcome": "env_infra"}, ["step-1/t3/1"]),
        ({"outcome": "max_turns,env_infra"}, ["step-1/t3/1", "step-1/t2/0"]),
        ({"label": "step-000001", "reward": ">0"}, ["step-1/t1/1"]),
        ({"task": "h1", "sort": "outcome", "label": "eval-untrained-heldout"}, ["step-1/h1/0"]),
        ({"group": "step-1/t1", "sort": "-reward"}, ["step-1/t1/1", "step-1/t1/0"]),
        ({"text": "as max_turns"}, ["step-1/t2/0"]),
        ({"text": "AS MAX_TURNS"}, []),
        ({"min_tokens": "4"}, []),
        ({"label": "step-000001", "sort": "attempt_id", "offset": "1", "limit": "1"}, ["step-1/t1/1"]),
    ],
    ids=str,
)
def test_attempts_are_selected(get: Get, asked: dict[str, str], expected: list[str]) -> None:
    assert ids(get("/attempts", **asked)) == expected


def test_a_list_says_how_many_there_are_whatever_its_page(get: Get) -> None:
    answer = get("/attempts", limit=1, label="step-000001")
    assert (len(answer["rows"]), answer["count"], answer["of"]) == (1, 3, 11)
    assert answer["outcomes"] == {"unsolved": 1, "solved": 1, "max_turns": 1}


@pytest.mark.parametrize(
    ("path", "asked", "status", "sentence"),
    [
        ("/attempts", {"reward": "high"}, 400, "give a number"),
        ("/attempts", {"offset": "-1"}, 400, "give a whole number"),
        ("/attempts", {"offset": "9" * 30}, 400, "give a whole number"),
        ("/attempts", {"sort": "patch"}, 400, "take one of attempt_id"),
        ("/attempt", {}, 400, "say which attempt"),
        ("/attempt", {"id": "1/none/0"}, 404, "has recorded no attempt 1/none/0"),
        ("/tokens", {"id": "../../etc/passwd"}, 404, "has recorded no attempt"),
        ("/wave", {"label": "../progress"}, 404, "has recorded nothing of ../progress"),
    ],
)
def test_a_wrong_question_gets_a_sentence(
    get: Get, path: str, asked: dict[str, str], status: int, sentence: str
) -> None:
    assert sentence in get(path, status, **asked)["error"]


def test_an_attempt_is_told_with_its_turns_diff_reasons_and_group(make_run: MakeRun) -> None:
    talk = [("system", "be good"), ("user", "fix"), ("assistant", "ls"), ("user", "a.py"), ("assistant", "done")]
    own = attempt(
        transcript=[{"role": role, "content": text} for role, text in talk],
        patch="diff --git a/a b/a\n@@ -1 +1 @@\n-x\n+y\n",
        grading_log="tests/a.py::test_b failed\n2 passed\nE   AssertionError",
    )
    run = make_run(attempts={"step-000001": [own, attempt("t1", "unsolved", index=1)]})
    told = client_of(run).get("/api/runs/_/run/attempt", params={"id": own["attempt_id"]}).json()
    assert [(m["kind"], m["turn"]) for m in told["messages"]] == [
        ("prompt", 0), ("prompt", 0), ("reply", 1), ("observation", 1), ("reply", 2),
    ]  # fmt: skip
    assert [kind for kind, _ in told["diff"]] == ["header", "hunk", "removed", "added"]
    assert [is_deciding for is_deciding, _ in told["grading"]] == [True, False, True]
    assert [(member["outcome"], member["reward"]) for member in told["group"]] == [("solved", 1.0), ("unsolved", 0.0)]


def test_a_group_is_by_number_whichever_ended_first(make_run: MakeRun) -> None:
    rows = [attempt("t1", index=index) for index in (10, 2, 0)]
    client = client_of(make_run(attempts={"step-000001": rows}))
    told = client.get("/api/runs/_/run/attempt", params={"id": rows[0]["attempt_id"]}).json()
    assert [member["attempt_id"] for member in told["group"]] == [f"step-1/t1/{index}" for index in (0, 2, 10)]


def test_tokens_are_columns_and_numbers_where_the_tokenizer_is_gone(get: Get) -> None:
    told = get("/tokens", id="step-1/t3/0")
    assert told["segments"] == [
        {
            "ids": [11, 12, 13, 14, 15],
            "mask": [0, 0, 1, 1, 1],
            "logprobs": [0.0, 0.0, -0.5, -1.5, -2.5],
            "versions": [-1, -1, 7, 7, 7],
        }
    ]
    assert "the run keeps no whole model/tokenizer.json" in told["without_texts"]


def test_tokens_tell_what_the_trainer_saw_of_those_that_it_trained(make_run: MakeRun) -> None:
    run = make_run()
    values = np.array([-0.25, -0.5, -1.0], np.float32)
    write_seen(run / "rollouts", "step-000002", [SeenTokens("step-1/t3/0", 0, values, -values)])
    [segment] = client_of(run).get("/api/runs/_/run/tokens", params={"id": "step-1/t3/0"}).json()["segments"]
    assert segment["trainer_logprobs"] == [None, None, -0.25, -0.5, -1.0]
    assert segment["entropies"] == [None, None, 0.25, 0.5, 1.0]


def test_what_a_life_before_saw_of_other_tokens_is_left_out(make_run: MakeRun) -> None:
    run = make_run()
    values = np.array([-0.25], np.float32)
    write_seen(run / "rollouts", "step-000002", [SeenTokens("step-1/t3/0", 0, values, values)])
    [segment] = client_of(run).get("/api/runs/_/run/tokens", params={"id": "step-1/t3/0"}).json()["segments"]
    assert segment.keys() == {"ids", "mask", "logprobs", "versions"}


def test_a_wave_sums_where_time_went_and_counts_failures(make_run: MakeRun) -> None:
    rows = [
        attempt(timings={"claim": 1.0, "model": 2.0, "total": 3.0}),
        attempt("t1", "env_infra", index=1, timings={"claim": 4.0}, infra_reason="ImagePull: no\nmore"),
    ]
    wave = client_of(make_run(attempts={"step-000001": rows})).get("/api/runs/_/run/wave").json()
    assert wave["stages"] == {"claim": 5.0, "model": 2.0, "sandbox": 0.0, "grading": 0.0}
    assert wave["failures"] == [["ImagePull: no", 1]]
    assert [cell["state"] for cell in wave["cells"]] == ["solved", "env_infra"]


def test_text_that_no_file_could_hold_and_no_page_should_run_arrives_as_it_was(make_run: MakeRun) -> None:
    nasty = "<script>alert(1)</script>\ud800 \x00 \U0010ffff"
    run = make_run(attempts={"step-000001": [attempt(transcript=[{"role": "user", "content": nasty}])]})
    response = client_of(run).get("/api/runs/_/run/attempt", params={"id": "step-1/t1/0"})
    assert response.headers["content-type"] == "application/json"
    assert json.loads(response.content)["messages"][0]["text"] == nasty


def test_a_step_that_ends_while_one_looks_is_seen(make_run: MakeRun) -> None:
    run = make_run()
    client = client_of(run)
    assert client.get("/api/runs/_/run/attempts").json()["of"] == 11
    write_attempts(run / "rollouts" / "step-000003.parquet", [attempt("t9", label="3")])
    (run / "rollouts" / "step-000001.parquet").unlink()
    assert client.get("/api/runs/_/run/attempts", params={"text": "as solved"}).json()["rows"][0]["task_id"] == "t9"
    assert client.get("/api/runs/_/run/attempts").json()["of"] == 9


@pytest.mark.parametrize(
    ("name", "content", "status"),
    [
        ("progress.json", '{"step": Infinity}', 400),
        ("progress.json", '{"step": 1, "weightVersion": "x"}', 400),
        ("progress.json", "[" * 100_000, 400),
        ("summary.json", '{"seconds": [1]}', 400),
        ("summary.json", '{"mode": {}}', 400),
        ("config.yaml", "{model: {name: m}, inference: x}", 400),
        ("metrics/restarts.jsonl", '{"at": 1}\n{"step": "x"}\n{"step": NaN}\n', 200),
        ("metrics/metrics.jsonl", '{"step": 1, "phase": NaN}\n{"step": 2, "phase": []}\n{"step": "3"}\n', 200),
    ],
)
def test_a_file_with_something_else_in_it_hides_no_other_run(
    make_run: MakeRun, name: str, content: str, status: int
) -> None:
    run = make_run()
    shutil.copytree(run, run.with_name("whole"))
    (run / name).write_text(content)
    client = client_of(run.parent)
    assert [line["name"] for line in client.get("/api/runs").json()] == ["run", "whole"]
    told = client.get("/api/runs/_/run")
    assert told.status_code == status
    assert "damaged" in told.text or status == 200
    assert client.get("/api/runs/_/run/figures").status_code in (200, status)
    assert client.get("/api/runs/_/whole").status_code == 200


def test_tokens_are_numbers_where_the_tokenizer_is_damaged(make_run: MakeRun) -> None:
    run = make_run()
    (run / "model").mkdir()
    (run / "model" / "tokenizer.json").write_text("{}")
    told = client_of(run).get("/api/runs/_/run/tokens", params={"id": "step-1/t3/0"}).json()
    assert (told["texts"], "no whole model/tokenizer.json" in told["without_texts"]) == ({}, True)


@pytest.mark.parametrize(
    "name",
    ["progress.json", "summary.json", "config.yaml", "metrics/metrics.jsonl", "rollouts/step-000001.parquet"],
)
@pytest.mark.parametrize("to", ["a pipe", "/dev/zero"])
def test_what_has_no_end_holds_nobody_up(make_run: MakeRun, name: str, to: str) -> None:
    path = make_run() / name
    path.unlink(missing_ok=True)
    if to == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(to)
    client = client_of(path.parents[name.count("/")])
    answers = [client.get(f"/api/runs{address}") for address in ("", "/_/run", "/_/run/figures", "/_/run/attempts")]
    assert any(f"{path} is no file" in answer.text for answer in answers)
    assert answers[0].status_code == 200


@pytest.mark.parametrize("damage", ["cut", "a directory", "another program's"])
def test_a_damaged_file_is_told_and_hides_no_other(make_run: MakeRun, damage: str) -> None:
    run = make_run()
    path = run / "rollouts" / "step-000002.parquet"
    whole = path.read_bytes()
    path.unlink()
    if damage == "a directory":
        path.mkdir()
    else:
        path.write_bytes(whole[: len(whole) // 2] if damage == "cut" else b"PAR1 of somebody else's")
    client = client_of(run)
    for asked in ({}, {"text": "as solved"}):
        told = client.get("/api/runs/_/run/attempts", params=asked).json()
        assert (told["of"], "step-000002" in told["labels"]) == (9, False)
        assert [str(path) in sentence for sentence in told["unread"]] == [True]
    assert client.get("/api/runs/_/run/figures").json()["unread"] == told["unread"]
    assert client.get("/api/runs/_/run/attempt", params={"id": "step-1/t1/0"}).json()["outcome"] == "unsolved"
    wave = client.get("/api/runs/_/run/wave", params={"label": "step-000002"})
    assert (wave.status_code, wave.json()["error"]) == (404, told["unread"][0])


def test_what_gave_way_to_another_file_while_it_was_asked_for_is_asked_for_again() -> None:
    answers: list[Any] = [FileNotFoundError("under-way.arrows"), {"rows": 1}]

    def read(_: object) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert json.loads(answering(read)(cast(Request, None)).body) == {"rows": 1}


@pytest.mark.parametrize(
    "error", [PermissionError(13, "Permission denied", "/runs/r"), FileNotFoundError(2, "x", "/r")]
)
def test_a_place_that_cannot_be_read_is_told(error: OSError) -> None:
    def read(_: object) -> Any:
        raise error

    response = answering(read)(cast(Request, None))
    assert (response.status_code, str(error.filename) in json.loads(response.body)["error"]) == (500, True)


async def test_it_is_alive_while_all_that_read_are_at_work(make_run: MakeRun) -> None:
    go_on = threading.Event()
    sources = Sources(Directories(make_run()))
    waiting = cast(Sources, SimpleNamespace(runs=lambda: go_on.wait(60), stamps=sources.stamps))
    current_default_thread_limiter().total_tokens = 1
    async with httpx.AsyncClient(transport=httpx.ASGITransport(make_app(waiting, None)), base_url="http://x") as client:
        reading = asyncio.create_task(client.get("/api/runs"))
        while current_default_thread_limiter().borrowed_tokens == 0:
            await asyncio.sleep(0)
        assert (await client.get("/healthz")).text == "ok\n"
        assert not reading.done()
        go_on.set()
        assert (await reading).json() is True


def test_an_attempt_of_any_size_is_told_in_bounds_with_a_mark_in_each_message(make_run: MakeRun) -> None:
    long, short = [{"role": "user", "content": "x" * 400_000}] * 60, [{"role": "user", "content": "short"}]
    run = make_run(attempts={"step-000001": [attempt("t1", transcript=long + short)]})
    answer = client_of(run).get("/api/runs/_/run/attempt", params={"id": "step-1/t1/0"})
    assert len(answer.content) < 3_100_000
    texts = [message["text"] for message in answer.json()["messages"]]
    assert all("characters left out" in text for text in texts[:-1])
    assert texts[-1] == "short"


def test_attempts_are_read_one_at_a_time_and_wait_without_a_thread(make_run: MakeRun) -> None:
    """Each may be 100 MB of text, and as many may ask as like to."""
    files = BusyFiles()
    sources = cast(Sources, SimpleNamespace(files=lambda where, name: files, runs=list, stamps=dict))

    async def ask_all() -> None:
        app = httpx.ASGITransport(make_app(sources, None, num_readers=4))
        async with httpx.AsyncClient(transport=app, base_url="http://page") as client:
            paths = [f"/api/runs/_/run/{what}?id=1" for what in ("attempt", "tokens") for _ in range(40)]
            waiting = [asyncio.create_task(client.get(path)) for path in paths]
            await asyncio.to_thread(files.is_busy.wait)
            assert (await client.get("/api/runs")).json() == []
            files.may_end.set()
            assert {answer.status_code for answer in await asyncio.gather(*waiting)} == {404}

    asyncio.run(ask_all())
    assert files.most == 1


class BusyFiles:
    """RunFiles without attempts, which counts who looks for one at the same time, and keeps them."""

    name = "run"

    def __init__(self) -> None:
        self.index = self
        self.is_busy, self.may_end = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._now, self.most = 0, 0

    def paths(self) -> dict[str, Path]:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        self.is_busy.set()
        self.may_end.wait()
        with self._lock:
            self._now -= 1
        return {}
