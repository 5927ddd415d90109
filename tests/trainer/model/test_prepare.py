import gzip
import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.warm_interpreter import WarmInterpreter
from transformers import AutoModelForCausalLM, AutoTokenizer

from sweyard_api.resolve import dump_config
from sweyard_trainer.errors import ModelDamagedError, UnsupportedError
from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.model.load import empty_model, full_state
from sweyard_trainer.prepare import main, prepare_model

SHORT = {"agent": {"type": "short"}}


@pytest.fixture
def datasets(tmp_path: Path) -> Path:
    """A folder with the data set `tasks` of one task."""
    task = {
        "id": "t1",
        "repository": "example",
        "image": "dir:tree",
        "working_directory": "/testbed",
        "problem_statement": "mean() divides by the wrong number",
        "gold_patch": "--- a/mean.py\n+++ b/mean.py\n@@ -1,2 +1,2 @@\n def mean(xs):\n"
        "-    return sum(xs) / 2\n+    return sum(xs) / len(xs)\n",
        "fail_to_pass": ["tests/test_mean.py::test_mean"],
        "context": {
            "path": "mean.py",
            "function": "mean",
            "lines": [[1, "def mean(xs):"], [2, "    return sum(xs) / 2"]],
            "line": 2,
        },
    }
    folder = tmp_path / "datasets" / "tasks"
    folder.mkdir(parents=True)
    with gzip.open(folder / "tasks.jsonl.gz", "wt") as file:
        file.write(json.dumps(task) + "\n")
    return folder.parent


def test_a_scratch_model_has_its_shape_and_loads_everywhere(make_spec, tmp_path: Path, datasets: Path) -> None:
    directory = prepare_model(make_spec(**SHORT), tmp_path / "run", [datasets])
    model = AutoModelForCausalLM.from_pretrained(directory)
    assert model.config.model_type == "qwen3"
    assert (model.config.head_dim, model.config.num_hidden_layers, model.config.vocab_size) == (64, 2, 320)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert ChatRenderer.load(directory).stop_token_ids == (tokenizer.eos_token_id,)


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_model_that_is_cut_off_is_told_by_the_file_and_made_again(
    make_spec, tmp_path: Path, datasets: Path, file: str
) -> None:
    directory = prepare_model(make_spec(**SHORT), tmp_path / "run", [datasets])
    whole = (directory / file).read_bytes()
    (directory / file).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelDamagedError, match=rf"{file} is damaged \(.*\): remove the directory {directory}"):
        prepare_model(make_spec(**SHORT), tmp_path / "run", [datasets])
    shutil.rmtree(directory)
    assert (prepare_model(make_spec(**SHORT), tmp_path / "run", [datasets]) / file).read_bytes() == whole


def test_preparing_again_changes_nothing(make_spec, tmp_path: Path, datasets: Path) -> None:
    directory = prepare_model(make_spec(**SHORT), tmp_path / "run", [datasets])
    before = {path.name: path.stat().st_mtime_ns for path in directory.iterdir()}
    prepare_model(make_spec(**SHORT), tmp_path / "run", [])
    assert {path.name: path.stat().st_mtime_ns for path in directory.iterdir()} == before


def test_the_same_seed_gives_the_same_weights(make_spec, tmp_path: Path, datasets: Path) -> None:
    def weights(name: str, seed: int) -> torch.Tensor:
        directory = prepare_model(make_spec(seed=seed, **SHORT), tmp_path / name, [datasets])
        return AutoModelForCausalLM.from_pretrained(directory).model.embed_tokens.weight

    assert torch.equal(weights("a", 1), weights("b", 1))
    assert not torch.equal(weights("a", 1), weights("c", 2))


def test_two_pods_at_the_same_time_prepare_one_model(
    make_spec, tmp_path: Path, datasets: Path, warm_interpreter: WarmInterpreter
) -> None:
    config, log = tmp_path / "config.yaml", tmp_path / "log"
    config.write_text(dump_config(make_spec(**SHORT)))
    arguments = ["--config", str(config), "--storage", str(tmp_path / "run"), "--datasets", str(datasets)]
    pods = [warm_interpreter.start("sweyard_trainer.prepare", arguments, log) for _ in range(2)]
    assert [pod.wait(60) for pod in pods] == [0, 0], log.read_text()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["model"]
    AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "model")


def test_a_model_by_path_is_copied_whole(make_spec, tmp_path: Path, tiny_model: Path) -> None:
    directory = prepare_model(make_spec(model={"name": str(tiny_model)}), tmp_path / "run", [])
    assert (directory / "model.safetensors").read_bytes() == (tiny_model / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        pytest.param("config.json", "{", r"config.json is damaged \(.*\): mend it, or name a local", id="settings"),
        pytest.param("model.safetensors", "x" * 99, "model.safetensors is damaged", id="weights"),
        pytest.param(
            "model.safetensors.index.json",
            '{"weight_map": {"a": "model-2.safetensors", "b": "model.safetensors"}}',
            "lacks model-2.safetensors, which model.safetensors.index.json names: mend it, or",
            id="shard",
        ),
    ],
)
def test_a_model_by_path_that_is_not_whole_is_refused_and_leaves_nothing(
    make_spec, tmp_path: Path, tiny_model: Path, file: str, content: str, sentence: str
) -> None:
    broken = shutil.copytree(tiny_model, tmp_path / "broken")
    (broken / file).write_text(content)
    with pytest.raises(ModelDamagedError, match=sentence):
        prepare_model(make_spec(model={"name": str(broken)}), tmp_path / "run", [])
    assert list((tmp_path / "run").iterdir()) == []


def test_weights_that_the_files_lack_are_not_made_up(tmp_path: Path, tiny_model: Path) -> None:
    shutil.copytree(tiny_model, tmp_path, dirs_exist_ok=True)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"], weights["lm_head.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    lacking = r"lack lm_head.weight, model.layers.1.mlp.up_proj.weight, which a Qwen3ForCausalLM has: take a whole"
    with pytest.raises(UnsupportedError, match=lacking):
        full_state(tmp_path, empty_model(tmp_path, "eager"), seed=0)


def test_an_output_layer_that_is_the_embeddings_is_not_lacking(tied_storage: Path) -> None:
    model = tied_storage / "model"
    assert "lm_head.weight" in full_state(model, empty_model(model, "eager"), seed=0)


def test_a_folder_without_a_model_is_refused_and_leaves_nothing(make_spec, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnsupportedError, match=r"config\.json"):
        prepare_model(make_spec(model={"name": str(tmp_path / "empty")}), tmp_path / "run", [])
    assert list((tmp_path / "run").iterdir()) == []


def test_a_run_is_no_model_and_is_not_copied_to_find_that_out(make_spec, tmp_path: Path) -> None:
    run = tmp_path / "earlier"
    run.mkdir()
    (run / "trainingrun.yaml").touch()
    os.mkfifo(run / "checkpoints")  # what cannot be copied
    with pytest.raises(UnsupportedError, match=r"has no config\.json; `sweyard export` makes a model of a run"):
        prepare_model(make_spec(model={"name": str(run)}), tmp_path / "run", [])


@pytest.mark.parametrize(
    ("tasks", "sentence"),
    [
        ({"train": {"dataset": "none"}}, "dataset 'none' is not in "),
        ({"train": {"dataset": "tasks", "ids": ["t9"]}}, "tasks of 'tasks': no such id: t9"),
    ],
    ids=["data set", "task"],
)
def test_what_is_not_there_is_a_user_error_that_the_pods_status_tells(
    make_spec,
    tmp_path: Path,
    datasets: Path,
    capsys: pytest.CaptureFixture[str],
    tasks: dict[str, object],
    sentence: str,
) -> None:
    config, log = tmp_path / "config.yaml", tmp_path / "termination-log"
    config.write_text(dump_config(make_spec(tasks=tasks, **SHORT)))
    log.touch()
    arguments = ["--config", str(config), "--storage", str(tmp_path / "run"), "--datasets", str(datasets)]
    assert main(arguments, log) == 2
    assert log.read_text().startswith(sentence)
    assert capsys.readouterr().err == f"error: {log.read_text()}\n"


def test_outside_a_pod_no_termination_log_is_made(make_spec, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(dump_config(make_spec(**SHORT)))
    arguments = ["--config", str(config), "--storage", str(tmp_path / "run"), "--datasets", str(tmp_path)]
    assert main(arguments, tmp_path / "termination-log") == 2
    assert not (tmp_path / "termination-log").exists()
