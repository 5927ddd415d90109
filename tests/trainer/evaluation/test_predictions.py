import json
from pathlib import Path
from typing import Any

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.evaluation.predictions import prediction_files, write_predictions


def read_as_the_harness_does(path: Path) -> dict[str, Any]:
    from swebench.harness.utils import get_predictions_from_file

    predictions = get_predictions_from_file(str(path), "SWE-bench/SWE-bench_Verified", "test")
    assert len({prediction["instance_id"] for prediction in predictions}) == len(predictions), "it keeps one a task"
    return {prediction["instance_id"]: prediction for prediction in predictions}


def test_swebench_reads_one_prediction_a_task(tmp_path: Path, make_attempt: Any) -> None:
    attempts = [make_attempt("b__b-2", 0), make_attempt("a__a-1", 0, Outcome.UNSOLVED, patch="")]
    write_predictions(tmp_path / "predictions", prediction_files("final-held", "tiny-final", attempts, {}))
    assert [path.name for path in (tmp_path / "predictions").iterdir()] == ["final-held.jsonl"]
    assert read_as_the_harness_does(tmp_path / "predictions" / "final-held.jsonl") == {
        "a__a-1": {"instance_id": "a__a-1", "model_name_or_path": "tiny-final", "model_patch": ""},
        "b__b-2": {"instance_id": "b__b-2", "model_name_or_path": "tiny-final", "model_patch": "patch b__b-2 0"},
    }


def test_each_attempt_has_a_file_and_so_has_the_verifiers_choice(tmp_path: Path, make_attempt: Any) -> None:
    attempts = [make_attempt("t", index) for index in (2, 0, 1)] + [make_attempt("u", 0), make_attempt("u", 1)]
    scores = {make_attempt("t", index).attempt_id: score for index, score in enumerate((0.5, 1.0, 1.0))}
    write_predictions(tmp_path, prediction_files("final-held", "m", attempts, scores))
    patches = {
        path.name: {task: prediction["model_patch"] for task, prediction in read_as_the_harness_does(path).items()}
        for path in tmp_path.iterdir()
    }
    assert patches == {
        "final-held.jsonl": {"t": "patch t 0", "u": "patch u 0"},
        "final-held.attempt-2.jsonl": {"t": "patch t 1", "u": "patch u 1"},
        "final-held.attempt-3.jsonl": {"t": "patch t 2"},
        "final-held.best.jsonl": {"t": "patch t 1"},
    }


def test_work_that_could_not_be_graded_here_may_be_graded_there(make_attempt: Any) -> None:
    attempts = [make_attempt("lost", 0, Outcome.ENV_INFRA, patch=""), make_attempt("ungraded", 0, Outcome.EVAL_INFRA)]
    files = prediction_files("final-held", "m", attempts, {})
    assert [json.loads(line)["instance_id"] for line in files["final-held.jsonl"]] == ["ungraded"]


def test_a_patch_in_another_encoding_is_written(tmp_path: Path, make_attempt: Any) -> None:
    attempt = make_attempt("t", 0, patch=b"+caf\xe9\n".decode("utf-8", "surrogateescape"))
    write_predictions(tmp_path, prediction_files("p", "m", [attempt], {}))
    [prediction] = read_as_the_harness_does(tmp_path / "p.jsonl").values()
    assert prediction["model_patch"].encode("utf-8", "surrogateescape") == b"+caf\xe9\n"
