"""The schema is a promise to whoever reads the files: a change must be meant, and raise its version."""

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

from sweyard_trainer.rollouts.schema import SCHEMA, VERSION
from sweyard_trainer.rollouts.sealed import seal

DOCUMENT = Path(__file__).parents[3] / "docs" / "rollout-data.md"
GOLDEN = {
    "attempt_id": "string",
    "task_id": "string",
    "group_id": "string",
    "outcome": "string",
    "reward": "double",
    "official": "bool, may be null",
    "temperature": "double",
    "num_turns": "int32",
    "num_tokens": "int64",
    "num_sampled_tokens": "int64",
    "batch_group": "int32, may be null",
    "batch_index": "int32, may be null",
    "timings": "map<string, double>",
    "transcript": "list<element: struct<role: string not null, content: string not null> not null>",
    "patch": "string",
    "grading_log": "string",
    "infra_reason": "string",
    "segments": "list<element: struct<"
    "token_ids: list<element: int32 not null> not null, "
    "loss_mask: list<element: bool not null> not null, "
    "logprobs: list<element: float not null> not null, "
    "weight_versions: list<element: int32 not null> not null, "
    "routed_experts: binary> not null>",
}


def test_the_schema_is_the_one_of_its_version() -> None:
    assert VERSION == b"1"
    assert {field.name: f"{field.type}{', may be null' * field.nullable}" for field in SCHEMA} == GOLDEN


def test_files_have_the_schema_and_its_version(tmp_path: Path) -> None:
    sealed = seal(tmp_path / "step-000001", [])
    found = pq.read_schema(sealed)
    assert found.equals(SCHEMA)
    assert found.metadata == SCHEMA.metadata
    assert pq.read_table(sealed).num_rows == 0


def test_each_column_is_documented() -> None:
    rows = [line.split("|")[1] for line in DOCUMENT.read_text().splitlines() if line.startswith("| `")]
    told = [name.strip(" `") for row in rows for name in row.split(",")]
    segment = SCHEMA.field("segments").type.value_type
    assert told == [*SCHEMA.names[:-1], *(f"segments.{field.name}" for field in segment)]


def test_nothing_of_it_loads_pytorch() -> None:
    program = (
        "import importlib, pkgutil, sys, sweyard_trainer.rollouts as package\n"
        "for module in pkgutil.iter_modules(package.__path__, 'sweyard_trainer.rollouts.'):\n"
        "    importlib.import_module(module.name)\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "sweyard_trainer.rollouts.journal" in loaded
    assert not loaded & {"torch", "ray", "transformers", "vllm"}
