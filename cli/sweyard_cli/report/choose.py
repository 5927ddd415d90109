"""Which attempts are worth reading: pairs that show what training changed, and one of each kind of failure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sweyard_cli.results.attempts import AttemptKey
from sweyard_cli.results.run_results import RunResults

MAX_OTHER_ENDS = 3


@dataclass(frozen=True, slots=True)
class Choice:
    """One attempt and when it was made."""

    when: str
    key: AttemptKey


@dataclass(frozen=True, slots=True)
class Chapter:
    """Attempts to be read together."""

    title: str
    explanation: str
    choices: tuple[Choice, ...]


def choose_attempts(results: RunResults) -> list[Chapter]:
    """About a dozen attempts; chapters without any are left out."""
    chapters = [*_held_out_chapters(results), *_step_chapters(results)]
    shown = {choice.key for chapter in chapters for choice in chapter.choices}
    seen = {key.outcome for key in shown}
    others = tuple(_one_of_each_other_end(results.steps, seen))[:MAX_OTHER_ENDS]
    chapters.append(Chapter("Other ends", "One attempt of each kind of end not seen above.", others))
    return [chapter for chapter in chapters if chapter.choices]


def _held_out_chapters(results: RunResults) -> Iterator[Chapter]:
    titles = {evaluation.label: evaluation.title for evaluation in results.evaluations}
    for source in dict.fromkeys(source for _, source in results.held_out):
        by_label = {label: keys for (label, name), keys in results.held_out.items() if name == source}
        task_id = most_telling_task(list(by_label.values()))
        choices = tuple(
            Choice(titles[label], key)
            for label, keys in by_label.items()
            for key in [next((key for key in keys if key.task_id == task_id), None)]
            if key is not None
        )
        explanation = "One task that training never saw, attempted anew at each evaluation."
        yield Chapter(f"Held out ({source})", explanation, choices)


def most_telling_task(evaluations: Sequence[Sequence[AttemptKey]]) -> str | None:
    """A task that the last evaluation solved and the earlier ones did not, the latest before it above all.

    Failing that, one that the last evaluation solved, or any.
    """
    if not evaluations or not evaluations[-1]:
        return None
    solved_before = [{key.task_id for key in keys if key.is_solved} for keys in evaluations[:-1]]

    def worth(key: AttemptKey) -> tuple[bool, ...]:
        return (key.is_solved, *(key.task_id not in solved for solved in reversed(solved_before)))

    return max(evaluations[-1], key=worth).task_id


def _step_chapters(results: RunResults) -> Iterator[Chapter]:
    steps = [step for step, keys in results.steps.items() if keys]
    for step in dict.fromkeys([*steps[:1], *steps[-1:]]):
        group = clearest_group(results.steps[step])
        choices = tuple(Choice(f"step {step}", key) for key in group)
        explanation = (
            "Two attempts at one task, where some were solved and some were not: this is what training learns from."
        )
        yield Chapter(f"Training step {step}", explanation if len(group) > 1 else "", choices)


def clearest_group(keys: Sequence[AttemptKey]) -> list[AttemptKey]:
    """A solved and an unsolved attempt of one group; where no group has both, the first attempt there is."""
    groups: dict[str, list[AttemptKey]] = {}
    for key in keys:
        groups.setdefault(key.group_id, []).append(key)
    for group in groups.values():
        solved = [key for key in group if key.is_solved]
        unsolved = [key for key in group if key.outcome == "unsolved"]
        if solved and unsolved:
            return [max(unsolved, key=lambda key: key.num_turns), solved[0]]
    return list(keys[:1])


def _one_of_each_other_end(steps: Mapping[int, Sequence[AttemptKey]], seen: set[str]) -> Iterator[Choice]:
    """The latest of each."""
    found: dict[str, Choice] = {}
    for step, keys in steps.items():
        for key in keys:
            if key.outcome not in seen:
                found[key.outcome] = Choice(f"step {step}", key)
    yield from found.values()
