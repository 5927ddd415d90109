import gzip
import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from sweyard_sandbox.agents.protocol import Message
from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.demonstrations.files import DemonstrationFileError
from sweyard_trainer.demonstrations.recorded import Recorded, take_chats
from sweyard_trainer.demonstrations.rollouts import take_rollouts
from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.model.tokenizer import learn_tokenizer
from sweyard_trainer.rollouts.sealed import seal
from sweyard_trainer.trajectory import Segment, Trajectory


def row(talk: list[Message]) -> dict[str, Any]:
    return {"messages": [{"role": message.role, "content": message.content} for message in talk]}


def write(path: Path, rows: list[Any]) -> Path:
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        return path
    text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def said(segment: Segment, renderer: ChatRenderer) -> str:
    return renderer.text(segment.token_ids[segment.loss_mask].tolist())


@pytest.mark.parametrize("name", ["talk.jsonl", "talk.jsonl.gz", "talk.parquet"])
def test_recorded_chats_are_read(tmp_path: Path, renderer: ChatRenderer, talk: list[Message], name: str) -> None:
    recorded = Recorded()
    take_chats(recorded, write(tmp_path / name, [row(talk)] * 2), renderer)
    assert [said(segment, renderer) for segment in recorded.checked()] == ["edit 1|a|b<|end|>done"] * 2


def test_chats_are_fetched_from_the_hub_by_their_id(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, renderer: ChatRenderer, talk: list[Message]
) -> None:
    import datasets

    monkeypatch.setattr(datasets, "load_dataset", lambda name, *, split: [row(talk)] * len(f"{name}:{split}"))
    recorded = Recorded()
    take_chats(recorded, Path("org/name"), renderer)
    assert len(recorded.checked()) == len("org/name:train")
    with pytest.raises(DemonstrationFileError, match="no such file"):
        take_chats(recorded, Path("org/name.jsonl"), renderer)


def test_rows_that_cannot_be_masked_are_named_and_counted_and_the_rest_go_on(
    tmp_path: Path, renderer: ChatRenderer, talk: list[Message], caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "talk.jsonl", [row(talk), "{half\n", "\n", {"prompt": "x"}, row(talk), row(talk[:1])])
    recorded = Recorded()
    take_chats(recorded, path, renderer)
    with caplog.at_level(logging.WARNING):
        assert len(recorded.checked()) == 2
    assert caplog.messages == [
        f"refused: {path} row 2 is no JSON",
        f"refused: {path} row 3 has no `messages`: give a list of role and content",
        f"refused: {path} row 5 has no message of the assistant to learn",
        "trajectories: 3 refused, 2 taken",
    ]


def test_files_of_which_nothing_is_left_end_the_run_in_a_sentence(tmp_path: Path, renderer: ChatRenderer) -> None:
    recorded = Recorded()
    take_chats(recorded, write(tmp_path / "talk.jsonl", [{"prompt": "x"}]), renderer)
    with pytest.raises(DemonstrationFileError, match=r"no trajectory.*first of 1 refused: .*talk\.jsonl row 1 has no"):
        recorded.checked()


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        pytest.param("none.jsonl", None, "there is no such file", id="not there"),
        pytest.param("talk.parquet", b"PAR1 or not", "cannot be read", id="no Parquet"),
        pytest.param("talk.jsonl.gz", b"plain", "cannot be read", id="no gzip"),
        pytest.param("talk.jsonl", b"\xff\xfe", "cannot be read", id="no text"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, renderer: ChatRenderer, name: str, content: bytes | None, says: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DemonstrationFileError, match=f"{name}.*{says}"):
        take_chats(Recorded(), tmp_path / name, renderer)


def test_a_table_without_messages_says_what_it_has(tmp_path: Path, renderer: ChatRenderer) -> None:
    path = write(tmp_path / "talk.parquet", [{"prompt": "x", "answer": "y"}])
    with pytest.raises(DemonstrationFileError, match="no column `messages`; it has prompt, answer"):
        take_chats(Recorded(), path, renderer)


@pytest.fixture
def make_run(tmp_path: Path, make_trajectory: Callable[..., Trajectory]) -> Callable[..., Path]:
    """A run whose first step had attempts of these rewards, and whose held-out attempts were all solved."""

    def make(texts: list[str], rewards: list[float], **changes: Any) -> Path:
        run = tmp_path / "run"
        learn_tokenizer(texts, 300, 512).save_pretrained(run / "model")
        transcript = [{"role": "user", "content": "fix it"}, {"role": "assistant", "content": "done"}]
        for name in ("step-000001", "eval-final-held"):
            attempts = [
                replace(make_trajectory(reward, seed=number), transcript=transcript, **changes)
                for number, reward in enumerate(rewards if name.startswith("step") else [1.0])
            ]
            seal(run / "rollouts" / name, attempts)
        return run

    return make


def model_of(tmp_path: Path, renderer_texts: list[str]) -> Path:
    learn_tokenizer(renderer_texts, 300, 512).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


TEXTS = ["fix it edit done ok"]


@pytest.mark.parametrize(("min_reward", "taken"), [(1.0, [1, 3]), (0.5, [1, 2, 3]), (0.0, [0, 1, 2, 3])])
def test_attempts_that_earned_enough_are_taken_token_by_token(
    tmp_path: Path,
    make_run: Callable[..., Path],
    make_segment: Callable[..., Segment],
    renderer: ChatRenderer,
    min_reward: float,
    taken: list[int],
) -> None:
    run, recorded = make_run(TEXTS, [0.0, 1.0, 0.5, 1.0]), Recorded()
    model = model_of(tmp_path, TEXTS)
    take_rollouts(recorded, run, model, renderer, min_reward=min_reward, max_tokens=None)
    expected = [make_segment(24, seed) for seed in taken]
    assert [s.token_ids.tolist() for s in recorded.checked()] == [s.token_ids.tolist() for s in expected]
    assert all(np.array_equal(own.loss_mask, s.loss_mask) for own, s in zip(recorded.segments, expected, strict=True))


def test_a_run_that_earned_too_little_says_which_field_asks_for_more(
    tmp_path: Path, make_run: Callable[..., Path], renderer: ChatRenderer
) -> None:
    run, recorded = make_run(TEXTS, [0.0, 0.5]), Recorded()
    take_rollouts(recorded, run, model_of(tmp_path, TEXTS), renderer, min_reward=1.0, max_tokens=None)
    with pytest.raises(DemonstrationFileError, match=r"2 attempts earned less than sft\.minReward: lower it"):
        recorded.checked()


def test_with_another_tokenizer_the_transcripts_are_tokenised_anew(
    tmp_path: Path, make_run: Callable[..., Path], renderer: ChatRenderer
) -> None:
    run, recorded = make_run(["some other texts entirely"], [1.0]), Recorded()
    take_rollouts(recorded, run, model_of(tmp_path, TEXTS), renderer, min_reward=1.0, max_tokens=None)
    assert [said(segment, renderer) for segment in recorded.checked()] == ["done"]


@pytest.mark.parametrize(
    ("changes", "max_tokens", "refused"),
    [
        pytest.param({"outcome": Outcome.EVAL_INFRA}, None, [], id="infrastructure failed, whatever the reward says"),
        pytest.param({"segments": ()}, None, ["has no token that was sampled"], id="no tokens"),
        pytest.param({}, 10, ["has 24 tokens, more than the 10 of sft.maxTokens"], id="too long"),
    ],
)
def test_attempts_that_teach_nothing_are_left_out(
    tmp_path: Path,
    make_run: Callable[..., Path],
    renderer: ChatRenderer,
    changes: dict[str, Any],
    max_tokens: int | None,
    refused: list[str],
) -> None:
    run, recorded = make_run(TEXTS, [1.0], **changes), Recorded()
    take_rollouts(recorded, run, model_of(tmp_path, TEXTS), renderer, min_reward=1.0, max_tokens=max_tokens)
    assert recorded.segments == []
    assert recorded.refused == [f"{run / 'rollouts' / 'step-000001.parquet'} row 1 {why}" for why in refused]


def test_a_directory_without_rollouts_is_no_run(tmp_path: Path, renderer: ChatRenderer) -> None:
    with pytest.raises(DemonstrationFileError, match="holds no rollouts of steps"):
        take_rollouts(Recorded(), tmp_path, tmp_path, renderer, min_reward=1.0, max_tokens=None)
