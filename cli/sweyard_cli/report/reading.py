"""An attempt as a reader sees it: what the model was told, what it answered, what became of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sweyard_cli.figures import duration, plural
from sweyard_cli.report.choose import Chapter, Choice
from sweyard_cli.report.diff import diff_lines
from sweyard_cli.report.outcome_chart import outcome_name, outcome_style
from sweyard_cli.report.text import shown
from sweyard_cli.results.attempts import Attempt, load_attempt

MAX_MESSAGE_CHARACTERS = 4_000
MAX_PATCH_CHARACTERS = 12_000
MAX_TESTS_CHARACTERS = 4_000
FIRST_MESSAGES, LAST_MESSAGES = 12, 12
"""Of longer conversations the middle is left out."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message, or a word about those left out."""

    who: str
    style: str
    text: str


@dataclass(frozen=True, slots=True)
class Reading:
    """One attempt, all text bounded and visible, none of it escaped."""

    when: str
    task: str
    outcome: str
    outcome_style: str
    facts: tuple[str, ...]
    turns: tuple[Turn, ...]
    diff: tuple[tuple[str, str], ...]
    tests: str


@dataclass(frozen=True, slots=True)
class ReadChapter:
    """Attempts under one title."""

    title: str
    explanation: str
    readings: tuple[Reading, ...]


def read_chapters(chapters: Sequence[Chapter]) -> list[ReadChapter]:
    """With the text of the attempts."""
    return [
        ReadChapter(chapter.title, chapter.explanation, tuple(read_choice(choice) for choice in chapter.choices))
        for chapter in chapters
    ]


def read_choice(choice: Choice) -> Reading:
    """Loads the attempt."""
    return reading_of(choice.when, load_attempt(choice.key))


def reading_of(when: str, attempt: Attempt) -> Reading:
    """Pure."""
    tests = attempt.grading_log or attempt.infra_reason
    return Reading(
        when=when,
        task=shown(attempt.task_id, 200),
        outcome=shown(outcome_name(attempt.outcome), 40),
        outcome_style=outcome_style(attempt.outcome),
        facts=tuple(_facts(attempt)),
        turns=tuple(turns_of(attempt.messages)),
        diff=tuple(diff_lines(shown(attempt.patch, MAX_PATCH_CHARACTERS))) if attempt.patch else (),
        tests=shown(tests.strip(), MAX_TESTS_CHARACTERS),
    )


def _facts(attempt: Attempt) -> Iterator[str]:
    yield f"reward {attempt.reward:g}"
    if attempt.official is not None:
        yield f"data set's own verdict: {'solved' if attempt.official else 'not solved'}"
    yield plural(sum(role == "assistant" for role, _ in attempt.messages), "turn")
    if attempt.num_sampled_tokens:
        yield plural(attempt.num_sampled_tokens, "sampled token")
    if "total" in attempt.seconds:
        yield duration(attempt.seconds["total"])


def turns_of(messages: Sequence[tuple[str, str]]) -> Iterator[Turn]:
    """What comes before the first reply is the prompt; what the environment says afterwards are observations."""
    replied = False
    left_out = len(messages) - FIRST_MESSAGES - LAST_MESSAGES
    for index, (role, content) in enumerate(messages):
        replied |= role == "assistant"
        if left_out > 0 and FIRST_MESSAGES <= index < FIRST_MESSAGES + left_out:
            if index == FIRST_MESSAGES:
                yield Turn("", "left-out", f"{plural(left_out, 'message')} left out")
            continue
        text = shown(content, MAX_MESSAGE_CHARACTERS)
        if role == "assistant":
            yield Turn("model", "reply", text)
        elif replied:
            yield Turn("observation", "observation", text)
        else:
            yield Turn("instructions" if role == "system" else "prompt", "prompt", text)
