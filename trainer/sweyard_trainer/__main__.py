"""`python -m sweyard_trainer --config FILE`: one pod of the trainer gang on a cluster."""

import argparse
import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from sweyard_api.constants import EXIT_CODE_USER_FAULT
from sweyard_api.problem import InvalidSpecError
from sweyard_api.resolve import load_config
from sweyard_api.training_run import TrainingRunSpec
from sweyard_sandbox.errors import SweyardError
from sweyard_trainer import gang
from sweyard_trainer.engine.pod_engines import pod_engines
from sweyard_trainer.environment import Environment
from sweyard_trainer.exit_codes import DONE, STOPPED, exit_code_of
from sweyard_trainer.last_words import tell_why
from sweyard_trainer.waiting_threads import let_threads_sleep

JOIN_DEADLINE_SECONDS = 600.0


def main() -> int:
    """Exit code: 0 done, 2 the user's fault, 143 stopped after a checkpoint, others: start again."""
    parser = argparse.ArgumentParser(prog="python -m sweyard_trainer", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="resolved config of the run")
    arguments = parser.parse_args()
    let_threads_sleep(os.environ)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    spec = load_config(arguments.config.read_text(encoding="utf-8"))
    environment = Environment.of_pod(os.environ)
    with pod_engines(spec, environment.storage / "model", os.environ) as engines_run:
        return follow(environment, engines_run) if environment.rank > 0 else lead(spec, environment)


def lead(spec: TrainingRunSpec, environment: Environment) -> int:
    """Rank 0: the main loop."""
    mark = gang.end_mark(environment.storage, environment.attempt)
    # The first process of a container ignores what it has no handler for, and until the main loop has its own there is
    # nothing to save: the grace period of minutes would be waited out.
    signal.signal(signal.SIGTERM, partial(_end_at_once, mark))
    from sweyard_trainer.run import needs_ray, run_training  # imports PyTorch

    code = 1
    try:
        if needs_ray(spec):
            gang.start_head()
            _heed_other_ranks(environment)
        asyncio.run(run_training(spec, environment, stop_signals=(signal.SIGTERM,)))
        code = DONE
    except (SweyardError, InvalidSpecError) as error:
        logging.error("%s", error)
        code = exit_code_of(error)
        if code == EXIT_CODE_USER_FAULT:
            tell_why(str(error))
    finally:
        # Another pod may ask for the end once more, and would take it before the others know how this one ended.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        gang.leave_mark(mark, code)
    return code


def _end_at_once(mark: Path, *_: object) -> None:
    """Not by an exception: threads that load a model would be waited for."""
    gang.leave_mark(mark, STOPPED)
    os._exit(STOPPED)


def _heed_other_ranks(environment: Environment) -> None:
    """What ends another pod of the gang ends this one: by the same signal, hence after a checkpoint."""
    mark, stop = gang.stop_mark(environment.storage, environment.attempt), partial(os.kill, os.getpid(), signal.SIGTERM)
    threading.Thread(target=gang.stop_when_asked, args=(mark, stop), name="stop-mark", daemon=True).start()


def follow(environment: Environment, engines_run: Callable[[], bool]) -> int:
    """Other ranks: a node of Ray, until rank 0 says how it ended."""
    stop = gang.stop_mark(environment.storage, environment.attempt)
    # Of a gang that has not found each other there is nothing to save, and maybe no rank 0.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(STOPPED))
    gang.join(environment.head_address, deadline_seconds=JOIN_DEADLINE_SECONDS)
    # Rank 0 checkpoints with the help of this pod, which ends when rank 0 has.
    signal.signal(signal.SIGTERM, lambda *_: gang.ask_for_stop(stop))
    mark = gang.end_mark(environment.storage, environment.attempt)
    code = gang.wait_for_mark(mark, is_alive=lambda: gang.ray_is_alive() and engines_run())
    gang.leave()
    return code


if __name__ == "__main__":
    sys.exit(main())
