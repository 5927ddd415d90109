"""Which checkpoints are let go: pure."""

from collections.abc import Sequence

from sweyard_trainer.checkpoint.saved import Saved


def superfluous(saved: Sequence[Saved], keep: int, best_first: Sequence[int]) -> list[Saved]:
    """All but the last `keep` steps and, beside them, the best one there is; of a step only what was saved last.

    `best_first` are evaluated steps, the best first. Of the warm-up, which is only ever gone on with, the last one
    stays, and none once a step of the main phase is there.
    """
    main = {checkpoint.step: checkpoint for checkpoint in sorted(saved) if checkpoint.is_main}
    steps = set(sorted(main)[-keep:]) | set([step for step in best_first if step in main][:1])
    kept = {main[step] for step in steps} or set(sorted(saved)[-1:])
    return [checkpoint for checkpoint in sorted(saved) if checkpoint not in kept]
