"""Canaries in Go and Rust, for rows whose hidden tests are in these. Pure.

They end files that hold tests for certain, by what the test patch shows of them: in Go one that speaks of `testing.T`,
in Rust one that has `#[test]`. Both languages run the tests of a package or crate in one process, so that work which
says what it likes and then ends that takes the canaries' lines with it. In Rust none fails: cargo would not begin the
crate's other test programs after it.
"""

from sweyard_sandbox.grading.canary import MUST_FAIL, Canary
from sweyard_sandbox.grading.patch import Section

GO = 'func Test_{name}_{what}(t *testing.T) {{\n\tif len("a") == {length} {{\n\t\tt.Fatal("{token}")\n\t}}\n}}\n'
RUST = '#[test]\nfn zzz_test_{name}_{what}() {{\n    assert_eq!(1, "a".len(), "{token}");\n}}\n'
"""Tests of Rust run in the order of their names."""


def can_hold_canary(section: Section, log_parser: str) -> bool:
    """True for a file of tests in Go or Rust whose results this parser reads."""
    if log_parser == "parse_log_gotest":
        return section.path.endswith("_test.go") and "*testing.T)" in section.text
    return log_parser == "parse_log_cargo" and section.path.endswith(".rs") and "#[test]" in section.text


def compiled_text(canary: Canary) -> str:
    """To be put at the end of `canary.path`."""
    told = {"name": canary.name, "token": canary.token}
    if canary.path.endswith(".rs"):
        return RUST.format(what="right", **told)
    failing = [GO.format(what=what.removeprefix("test_"), length=1, **told) for what in MUST_FAIL]
    return "\n".join([*failing, GO.format(what="right", length=2, **told)])
