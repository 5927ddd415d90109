"""`make prove`: what takes longer than tests may. Results are dated and written into docs/performance.md.

`python -m benchmarks.prove [PROOF ...]`, each of properties, mutation, ranks, learning, resume, lineage, chain, churn,
kills, faults, lives, images, wave, page, kueue, swe-bench, qwen-code, qwen-code-in-pods; by default all. All but the
first eight, kueue and qwen-code need Linux and root.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

from benchmarks.prove.report import Section, write_section


def prove_properties() -> None:
    """Properties of planners and protocols, with many examples that no test has tried before."""
    _run("pytest", "-q", "-n", "2", "-m", "hypothesis and not (apiserver or kubelet)", "--hypothesis-profile", "search")


def prove_mutation() -> None:
    """Small wrongs in the learning rule, which tests must notice, and four large ones, with which nothing may learn."""
    _run("benchmarks.prove.mutation")
    _run("pytest", "-q", "tests/trainer/learner/test_seeded_bugs.py")


def prove_ranks() -> None:
    """Ranks, sequence parallelism, packing and accumulation, each with each, train as plain PyTorch does; so do
    compiled layers."""
    tests = ("tests/trainer/learner/test_rank_matrix.py", "tests/trainer/learner/test_compiled_layers.py")
    _run("pytest", "-p", "tests.strict_skips", "-v", "-m", "slow", *tests)
    matrix = importlib.import_module("tests.trainer.learner.test_rank_matrix")  # imports PyTorch
    lines = [
        "1, 2 and 4 ranks over gloo, sequence parallel 1 and 2 (from two ranks on), packed and unpacked, 1 and 4 "
        f"micro-batches an update: in all {len(matrix.COMBINATIONS)} combinations the losses of {matrix.STEPS} steps "
        f"({matrix.PASSES} updates each) are those of plain PyTorch to {matrix.LOSS_TOLERANCE:.0e}, and the weights "
        f"after them to {matrix.WEIGHT_TOLERANCE:.0e}, with updates of at most {matrix.LEARNING_RATE:.0e}."
    ]
    write_section(Section("Ranks", "python -m benchmarks.prove ranks", lines))


def prove_learning() -> None:
    """Three seeds and their controls, without a cluster."""
    _run("benchmarks.prove.learning")


def prove_resume() -> None:
    """A run that is killed twenty times is the same run, bit for bit."""
    _run("benchmarks.prove.resume")


def prove_lineage() -> None:
    """A run with concurrent vLLM that is killed twenty times loses and doubles nothing."""
    _run("benchmarks.prove.lineage")


def prove_chain() -> None:
    """What a run was taught is what is exported from it and measured, token for token."""
    _run("pytest", "-p", "tests.strict_skips", "-q", "tests/cli/test_chain.py")
    chain = importlib.import_module("tests.cli.test_chain")
    lines = [
        f"A run of mode sft was taught by recorded chats for {chain.STEPS} steps, `sweyard export` wrote its weights, "
        "and `sweyard eval` measured these: every attempt at held-out tasks has the same tokens, log-probabilities, "
        "patch and outcome as in the run's own final evaluation."
    ]
    write_section(Section("Chain", "python -m benchmarks.prove chain", lines))


def prove_churn() -> None:
    """Pools of 512 and 5,000 sandboxes on simulated nodes, through failures of all that keeps them."""
    _run("benchmarks.prove.churn")


def prove_kills() -> None:
    """Whole runs on a real cluster, with vLLM, through kill -9 of operator and trainer."""
    began = time.monotonic()
    _run("pytest", "-p", "tests.strict_skips", "-v", "-m", "kubelet", "tests/e2e/test_run_on_cluster.py")
    lines = [
        "Runs on a real node whose operator and whose trainer got kill -9 in the middle ended Succeeded with all their "
        "steps and one restart, once with the engine in the trainer and once with vLLM, and their deletion left "
        f"nothing. All of it took {time.monotonic() - began:.0f} s."
    ]
    write_section(Section("Kills", "python -m benchmarks.prove kills", lines))


def prove_faults() -> None:
    """One fault in each of two dozen runs on a real cluster, a drain, and stories on an API server that lies."""
    _run("benchmarks.prove.faults")


def prove_lives() -> None:
    """512 real sandboxes at work, and what becomes of them when things die."""
    _run("benchmarks.prove.lives")


def prove_images() -> None:
    """Task images on real nodes, from a registry that lies."""
    _run("benchmarks.prove.images")


def prove_wave() -> None:
    """How soon sandboxes are Ready on a real node, against a Deployment of the same pods."""
    lines = [
        "| sandboxes | rounds | pool ready | Deployment ready | ratio | slots idle |",
        "|---" * 6 + "|",
    ]
    for sandboxes, rounds in ((128, 3), (512, 1)):
        figures = _run_benchmark("benchmarks.wave", "--sandboxes", str(sandboxes), "--rounds", str(rounds))
        times = f"{figures['ready_s']} s | {figures['deployment_s']} s | {figures['ratio']}"
        lines.append(f"| {sandboxes} | {rounds} | {times} | {figures['slot_idle_fraction']:.0%} |")
    write_section(Section("A wave of sandboxes", "python -m benchmarks.prove wave", lines))


def prove_page() -> None:
    """The chart's page on a real node, from its image: what it shows of a run, and to whom."""
    began = time.monotonic()
    _run("pytest", "-p", "tests.strict_skips", "-v", "-m", "slow", "tests/e2e/test_page.py")
    lines = [
        "The page ran on a real node from its image before there was any run. A run that came later, with a folder of "
        "its own in the claim that the page mounts, was shown with its sandboxes, images, attempts, tokens and "
        "figures, while it wrote and 16 clients asked at once; a spoiled rollout file was named and hid nothing. "
        "Without the token, or with a wrong one, nobody saw any of it, and it was in no log. All of it took "
        f"{time.monotonic() - began:.0f} s."
    ]
    write_section(Section("The page on a cluster", "python -m benchmarks.prove page", lines))


def prove_kueue() -> None:
    """Runs in the queues of a real Kueue: admitted whole, preempted, interrupted, and nothing held in between."""
    _run("pytest", "-p", "tests.strict_skips", "-v", "-m", "slow", "tests/operator/run/test_run_in_kueue.py")


def prove_swe_bench() -> None:
    """Tasks in SWE-bench's format from source archives of real packages, graded in pods as swebench grades them."""
    _run("benchmarks.prove.swe_bench")


def prove_qwen_code() -> None:
    """qwen-code itself solves tasks in sandboxes without a network, and what is recorded is what its engine sent."""
    _run("benchmarks.prove.qwen_code")


def prove_qwen_code_in_pods() -> None:
    """The same in pods of a real node, with the program in a volume that an init container fills."""
    _run("benchmarks.prove.qwen_code_in_pods")


def _run(*module: str) -> None:
    subprocess.run([sys.executable, "-m", *module], check=True)


def _run_benchmark(*module: str) -> dict[str, float]:
    """The figures of its last line."""
    command = [sys.executable, "-m", *module]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        last = ""
        for last in process.stdout:
            print(last, end="", flush=True)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    figures: dict[str, float] = json.loads(last)
    return figures


PROOFS: dict[str, Callable[[], None]] = {
    "properties": prove_properties,
    "mutation": prove_mutation,
    "ranks": prove_ranks,
    "learning": prove_learning,
    "resume": prove_resume,
    "lineage": prove_lineage,
    "chain": prove_chain,
    "churn": prove_churn,
    "kills": prove_kills,
    "faults": prove_faults,
    "lives": prove_lives,
    "images": prove_images,
    "wave": prove_wave,
    "page": prove_page,
    "kueue": prove_kueue,
    "swe-bench": prove_swe_bench,
    "qwen-code": prove_qwen_code,
    "qwen-code-in-pods": prove_qwen_code_in_pods,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prove", description=__doc__)
    parser.add_argument("proofs", nargs="*", metavar="PROOF", help=", ".join(PROOFS))
    arguments = parser.parse_args()
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    if unknown := set(arguments.proofs) - PROOFS.keys():
        parser.error(f"PROOF {sorted(unknown)[0]!r} is not one of " + ", ".join(PROOFS))
    for name in arguments.proofs or PROOFS:
        print(f"== {name}", flush=True)
        PROOFS[name]()


if __name__ == "__main__":
    main()
