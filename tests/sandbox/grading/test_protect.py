"""What of a patch is no work in languages other than Python."""

import pytest
from tests.sandbox.grading.patches import added

from sweyard_sandbox.grading.protect import keep_work

NO_WORK = (
    *("cmd/main_test.go", "src/a.test.js", "src/a.spec.tsx", "a.test.mjs"),
    *(".cargo/config.toml", "crates/a/.cargo/config", "jest.config.js", "web/vitest.config.ts", "karma.conf.js"),
    ".mocharc.yml",
)
WORK = (
    "cmd/latest.go",
    "types/lib.rs",
    "json/README.md",
    "src/contest.js",
    "src/spec.ts",
    "cargo/config.toml",
    "src/testing.rs",
    "src/jest_config.js",
)


@pytest.mark.parametrize("path", NO_WORK)
def test_tests_and_settings_of_runners_are_left_out(path: str) -> None:
    kept = keep_work(added(path, "x\n"), ["."])

    assert (kept.patch, len(kept.dropped)) == ("", 1)
    assert keep_work(added(path, "x\n"), ["."], allowed=[path]).patch


@pytest.mark.parametrize("path", WORK)
def test_what_is_like_them_stays(path: str) -> None:
    assert keep_work(added(path, "x\n"), ["."]).dropped == ()
