"""The demo is safe to repeat."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from sweyard_cli.demo.output import set_aside
from sweyard_cli.errors import UserError
from sweyard_cli.local.lock import lock

NOW = datetime(2026, 5, 4, 3, 2, 1)


def test_an_earlier_demo_is_kept_under_another_name(tmp_path: Path) -> None:
    output = tmp_path / "tiny"
    output.mkdir()
    (output / "summary.json").write_text("{}")
    assert set_aside(output, NOW) == tmp_path / "tiny-20260504-030201"
    assert not output.exists()
    assert (tmp_path / "tiny-20260504-030201" / "summary.json").exists()


def test_the_first_demo_sets_nothing_aside(tmp_path: Path) -> None:
    assert set_aside(tmp_path / "tiny", NOW) is None


def test_a_demo_that_is_running_is_left_alone(tmp_path: Path) -> None:
    with lock(tmp_path), pytest.raises(UserError, match="a demo is running"):
        set_aside(tmp_path, NOW)
    assert tmp_path.exists()


def test_a_choice_that_cannot_work_is_refused_before_anything_is_moved(
    sweyard: Callable[..., Any], run_file: Path, tmp_path: Path
) -> None:
    output = tmp_path / "tiny"
    output.mkdir()
    result = sweyard("demo", "--cluster", "existing", "-f", run_file, "--output", output)  # no registry
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert list(tmp_path.glob("tiny*")) == [output]


def test_a_choice_that_is_none_is_told_with_those_there_are(sweyard: Callable[..., Any]) -> None:
    result = sweyard("demo", "--cluster", "minikube")
    assert result.exit_code == 2
    for choice in ("none", "native", "kind", "existing"):
        assert choice in result.stderr
