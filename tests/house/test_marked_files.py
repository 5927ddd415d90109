"""What `--only-marked` passes over."""

from pathlib import Path

import pytest
from tests.marked_files import may_hold

TREE = {
    "conftest.py": "",
    "plain/test_a.py": "def test(): ...",
    "mixed/test_a.py": "def test(): ...",
    "mixed/test_b.py": "@pytest.mark.kubelet\ndef test(): ...",
    "all/conftest.py": "KINDS = [pytest.param('pod', marks=pytest.mark.kubelet)]",
    "all/deep/test_a.py": "def test(kind): ...",
    "other/test_a.py": "pytestmark = pytest.mark.kubelet_of_another_name",
}
HELD = {"mixed", "mixed/test_b.py", "all", "all/conftest.py", "all/deep", "all/deep/test_a.py"}


@pytest.mark.parametrize("name", sorted({*TREE, *HELD, "plain", "other"} - {"conftest.py"}))
def test_only_what_can_hold_the_mark_is_looked_at(tmp_path: Path, name: str) -> None:
    for file, text in TREE.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    assert may_hold(tmp_path / name, ["vllm", "kubelet"], tmp_path) == (name in HELD)
