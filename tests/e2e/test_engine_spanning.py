"""An engine of two pods on a real cluster: a run trains through it, and the end of either pod is that of one engine."""

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from tests.e2e.installation import Installation
from tests.e2e.test_engine_scaling import METRICS, PYTHON, until
from tests.e2e.test_fault_matrix import ENGINE, SHORT, steps_in, trainer_paused
from tests.e2e.test_run_on_cluster import until_gone

pytestmark = [pytest.mark.kubelet, pytest.mark.slow, pytest.mark.timeout(3_600)]

DEADLINE_SECONDS = 1_200.0
STEPS = 6
SERVING, OTHER = "r-engine-0", "r-engine-1"
SPEC: dict[str, Any] = {
    **SHORT,
    "steps": STEPS,
    "images": {"cacheRef": "shared"},
    "model": {"scratch": {"layers": 2, "hiddenSize": 128, "vocabularySize": 400}},
    "warmup": {"steps": 5, "batchSize": 8},
    "rollout": {**SHORT["rollout"], "infraRetries": 8, "stepDeadlineSeconds": 1_200},
    "inference": {"engine": "vllm", "tensorParallel": 2, "podsPerEngine": 2},
}
"""A model of two heads, of which each pod has one. Attempts are made again for each time that the engine dies, and a
step waits for it."""
TOLERANCE = 1e-3
"""Of a token's logprob, by vLLM's kernels and by transformers."""
COMPARE = """
import asyncio, json, shutil, torch, transformers
from sweyard_trainer.engine.vllm import VllmEngine

PROMPT = list(range(20, 60))

async def sample():
    engine = VllmEngine("http://127.0.0.1:8000", deadline_seconds=120)
    while True:
        version = await engine.weight_version()
        reply = await engine.complete(
            PROMPT, max_tokens=16, temperature=1.0, stop_token_ids=[], seed=0, cache_salt="compared")
        if version > 0 and version == await engine.weight_version():
            await engine.close()
            shutil.copytree(f"/var/lib/sweyard/weights/{version}", "/tmp/served", dirs_exist_ok=True)
            return reply
        await asyncio.sleep(1)

def gap(directory, reply):
    model = transformers.AutoModelForCausalLM.from_pretrained(directory)
    ids = torch.tensor([*PROMPT, *reply.token_ids])
    logprobs = model(ids[None]).logits[0, len(PROMPT) - 1:-1].log_softmax(-1)
    sampled = logprobs.gather(1, ids[len(PROMPT):, None])[:, 0]
    return (sampled - torch.tensor(reply.logprobs)).abs().max().item()

reply = asyncio.run(sample())
print(json.dumps({"served": gap("/tmp/served", reply), "first": gap("/var/lib/sweyard/model", reply)}))
"""
"""Largest gaps of the logprobs of an engine, once it has weights of the run, to those of these weights, which the run
soon removes, and to those of the weights that it starts with."""


@pytest.mark.parametrize("is_idle", [False, True], ids=["at work", "idle"])
def test_a_run_trains_through_an_engine_of_two_pods_and_outlives_the_end_of_either(
    is_idle: bool, installation: Installation, furnished: str, record_property: Callable[[str, object], None]
) -> None:
    namespace = furnished
    given = installation.left_in(namespace)
    installation.apply_run(namespace, SPEC)
    installation.wait_for_step(namespace, 1, DEADLINE_SECONDS)
    check_weights(installation, namespace)

    for times, killed in enumerate([OTHER, SERVING], start=1):
        with idling(installation, namespace) if is_idle else contextlib.nullcontext():
            began = time.monotonic()
            installation.kill(namespace, "engine", ENGINE, killed)
            until("both to start again", partial(are_started_again, installation, namespace, times), DEADLINE_SECONDS)
        print(f"{killed} killed: both had started again after {time.monotonic() - began:.0f} s", flush=True)
        until("a ready engine", partial(is_ready, installation, namespace), DEADLINE_SECONDS)
        print(f"{killed} killed: the engine was ready after {time.monotonic() - began:.0f} s", flush=True)
        check_weights(installation, namespace)

    status = installation.wait_for_end(namespace, DEADLINE_SECONDS)
    record_property("restarts", status["restarts"])
    record_property("attempts", status["attempts"])
    assert (status["phase"], status["step"]) == ("Succeeded", STEPS), status
    assert (status["attempts"], status["restarts"]) == (1, 0)
    assert steps_in(installation, namespace, "r") == {step: 1 for step in range(1, STEPS + 1)}
    installation.kubectl("-n", namespace, "delete", "trainingrun", "r")
    until_gone(installation, namespace, None, given)


@contextlib.contextmanager
def idling(installation: Installation, namespace: str) -> Iterator[None]:
    """No request is under way, in which a pod's end would be noticed at once."""
    with trainer_paused(installation, namespace):
        until("the end of replies", lambda: has_no_request(installation, namespace), DEADLINE_SECONDS)
        yield


def has_no_request(installation: Installation, namespace: str) -> bool:
    told = installation.kubectl("-n", namespace, "exec", SERVING, "--", PYTHON, "-c", METRICS)
    running = re.findall(r"^vllm:num_requests_(?:running|waiting)\{.*\} (\S+)$", told, re.MULTILINE)
    return bool(running) and not any(map(float, running))


def are_started_again(installation: Installation, namespace: str, times: int) -> bool:
    """Each pod's engine, so often."""
    return [one["restartCount"] for one in containers(installation, namespace)] == [times, times]


def is_ready(installation: Installation, namespace: str) -> bool:
    return [one["ready"] for one in containers(installation, namespace)] == [True, True]


def containers(installation: Installation, namespace: str) -> list[dict[str, Any]]:
    """What the kubelet says of both."""
    pods = [pod["status"] for pod in installation.pods(namespace, "engine")]
    return [one for pod in pods for one in pod.get("containerStatuses", ())]


def check_weights(installation: Installation, namespace: str) -> None:
    """Both halves are of the run's weights, and not of those that the engine starts with."""
    told = installation.kubectl("-n", namespace, "exec", SERVING, "--", PYTHON, "-c", COMPARE)
    gaps = json.loads(told.splitlines()[-1])
    print(f"largest gaps of a token's logprob: {gaps}", flush=True)
    assert gaps["served"] < TOLERANCE < gaps["first"]
