"""Worlds with one run, scripted or of a real API server."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.operator.run.lab import Lab

from sweyard_cluster.testing import TestCluster
from sweyard_operator.build.run_context import ApiServerEndpoint, RunSettings
from sweyard_operator.testing.run_world import RunWorld

MakeWorld = Callable[..., RunWorld]


@pytest.fixture
def settings() -> RunSettings:
    endpoints = (ApiServerEndpoint("10.0.0.2", 6443), ApiServerEndpoint("10.96.0.1", 443))
    return RunSettings(trainer_image="registry.example/sweyard-trainer:1", api_server=endpoints)


@pytest.fixture
def make_world(settings: RunSettings) -> MakeWorld:
    """A run of the tiny preset; keyword arguments replace fields of its spec."""

    def make(**changes: Any) -> RunWorld:
        tasks = {"train": {"dataset": "tiny", "split": "train"}, "eval": [{"dataset": "tiny", "split": "heldout"}]}
        return RunWorld({"preset": "tiny", "tasks": tasks, **changes}, settings)

    return make


@pytest.fixture
def running(make_world: MakeWorld) -> Callable[..., RunWorld]:
    """A world whose trainer runs."""

    def run(**changes: Any) -> RunWorld:
        world = make_world(**changes)
        world.settle()
        world.serve()
        world.settle()
        world.run_gang(0)
        world.settle()
        return world

    return run


@pytest.fixture
def lab(kinds: TestCluster, tmp_path: Path) -> Iterator[Lab]:
    """A namespace with an operator at work."""
    namespace = f"run-{uuid.uuid4().hex[:8]}"
    kinds.kubectl("create", "namespace", namespace)
    lab = Lab(kinds, namespace, tmp_path / "operator.log")
    lab.start_operator()
    try:
        yield lab
    finally:
        lab.kill_operator()
        kinds.kubectl("delete", "namespace", namespace, "--wait=false")
