"""What reads text that a model or its code wrote never raises: that would cost attempts that should be scored."""

from hypothesis import given
from hypothesis import strategies as st
from tests.sandbox.agents.written_calls import render_call

from sweyard_sandbox.agents.bash.agent import blocks, hands_in
from sweyard_sandbox.agents.bash.prompt import SENTINEL
from sweyard_sandbox.agents.tools.calls import Call, parse_calls
from sweyard_sandbox.grading.patch import canonical_patch, join_patch, split_patch
from sweyard_sandbox.grading.protect import keep_work
from sweyard_sandbox.grading.r2e_log import official_verdict, plain, problems
from sweyard_sandbox.tasks.diff import reversed_patch

LINES = (
    *("diff --git a/x b/x", 'diff --git "a/x', 'diff --git "a/x" "b/\\303\\244"', "diff --git", "--- a/x", "+++ b/x"),
    *(
        '+++ "b/€',
        '+++ "',
        "+++ /dev/null",
        "--- /dev/null",
        "+++ b/x\t1970",
        "rename to ",
        "copy from x",
        "old mode 1",
    ),
    *("@@ -1 +1 @@", "@@ -1,9 +0,0 @@ f", "@@ -0,0 +1,99999999999 @@", "@@", "+a", "-b", " c", "", "\\ No newline"),
    *("new file mode 120000", "index 1..2 120000", "Binary files a and b differ", "\r", "\udcff", "GIT binary patch"),
)
PATCHES = st.lists(st.sampled_from(LINES) | st.text(max_size=6), max_size=14).map("\n".join)


@given(patch=PATCHES)
def test_any_text_is_split_into_sections(patch: str) -> None:
    sections = split_patch(patch)

    assert patch.endswith(join_patch(sections))
    assert split_patch(join_patch(sections)) == sections
    assert canonical_patch(patch) == canonical_patch(join_patch(sections))
    kept = keep_work(patch, ["src"], ["tests/test_x.py"], ["own"])
    assert len(kept.dropped) + len(split_patch(kept.patch)) == len(sections)
    reversed_patch(patch)


REPLIES = st.lists(
    st.sampled_from(
        [
            "<function=a>",
            "</function>",
            "<parameter=b>",
            "</parameter>",
            "<function=",
            "```bash\n",
            "```",
            "\n",
            "x",
            "\0",
        ]
    ),
    max_size=14,
).map("".join)


@given(reply=REPLIES)
def test_any_reply_has_calls_or_none(reply: str) -> None:
    for call in parse_calls(reply):
        assert all(value in reply for value in (call.name, *call.arguments, *call.arguments.values()))
    assert all(command in reply for command in blocks(reply))
    assert not hands_in(reply) or SENTINEL in reply


VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).filter(lambda text: "<" not in text)


@given(arguments=st.dictionaries(st.from_regex(r"[A-Za-z_][\w-]*", fullmatch=True), VALUES, max_size=3))
def test_calls_are_read_as_they_were_written(arguments: dict[str, str]) -> None:
    arguments = {name: value.strip("\n") for name, value in arguments.items()}
    assert parse_calls(f"So:\n{render_call(Call('tool', arguments))}\n") == [Call("tool", arguments)]


LOGS = st.lists(
    st.sampled_from(
        [
            "short test summary info",
            "PASSED a.py::b",
            "FAILED a.py::b - PASSED",
            "ERROR a.py",
            "\x1b[31mPASSED x",
            " - ",
            "::",
        ]
    ),
    max_size=8,
).map("\n".join)


@given(log=LOGS)
def test_a_log_without_problems_is_good_by_the_lenient_rule_too(log: str) -> None:
    expected = {"b": "PASSED"}
    assert problems(plain(log), expected) or official_verdict(plain(log), expected)
