"""Processes of a cluster: known by more than their pid, ended with all that is theirs, and heard when they end."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweyard_cluster.errors import ClusterError
from sweyard_cluster.processes import ProcessRecord, ProcessTable, end_process, identify

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def table(tmp_path: Path) -> Iterator[ProcessTable]:
    made = ProcessTable(tmp_path / "processes", tmp_path / "logs", str(tmp_path))
    yield made
    made.stop_strays()
    for name in made.names():
        made.stop(name)


def test_started_process_is_known_until_it_ends(table: ProcessTable) -> None:
    record = table.start("sleeper", SLEEP, os.environ)
    assert table.running("sleeper") == record
    assert table.start("sleeper", SLEEP, os.environ) == record
    table.stop("sleeper")
    assert identify(record.pid) != record
    assert table.names() == []


def test_a_started_process_keeps_nothing_open_of_its_starter(table: ProcessTable, tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as lock:
        os.set_inheritable(lock.fileno(), True)
        record = table.start("sleeper", SLEEP, os.environ)
    opened = [path.readlink() for path in Path(f"/proc/{record.pid}/fd").iterdir()]
    assert {path.name for path in opened if path.is_relative_to(tmp_path)} == {"sleeper.log"}


@pytest.mark.parametrize("field", ["boot_id", "start_ticks", "executable"])
def test_another_process_under_a_recorded_pid_is_left_alone(table: ProcessTable, field: str) -> None:
    record = table.start("sleeper", SLEEP, os.environ)
    other = {"boot_id": "another boot", "start_ticks": 1, "executable": "/bin/other"}[field]
    table.write("stale", ProcessRecord(**{**record.__dict__, field: other}))
    assert table.running("stale") is None
    table.stop("stale")
    assert identify(record.pid) == record


def test_unrecorded_process_is_found_and_ended(table: ProcessTable) -> None:
    kept = table.start("kept", SLEEP, os.environ)
    lost = table.start("lost", SLEEP, os.environ)
    (table.records / "lost.json").unlink()
    # The kernel shows a new process's environment a moment after its program.
    table.wait("kept", lambda: {record.pid for record in table.strays()} == {kept.pid, lost.pid}, 60)
    table.stop_strays()
    assert identify(lost.pid) != lost
    assert table.running("kept") == kept


def test_process_that_ignores_the_first_signal_is_ended(table: ProcessTable, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    deaf = (
        "import pathlib, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"pathlib.Path({str(ready)!r}).touch(); time.sleep(600)"
    )
    record = table.start("deaf", [sys.executable, "-c", deaf], os.environ)
    table.wait("deaf", ready.exists, 60)
    end_process(record, grace_seconds=0.2)
    assert identify(record.pid) != record


def test_end_before_readiness_is_told_with_the_log(table: ProcessTable) -> None:
    failing = "import time; print('port is taken', flush=True); time.sleep(0.3)"
    table.start("brief", [sys.executable, "-c", failing], os.environ)
    with pytest.raises(ClusterError, match="port is taken"):
        table.wait("brief", lambda: False, 60)


def test_the_end_of_what_is_needed_is_told_in_place_of_a_vain_wait(table: ProcessTable) -> None:
    table.start("server", SLEEP, os.environ)
    table.start("store", [sys.executable, "-c", "print('the disk is full')"], os.environ)
    with pytest.raises(ClusterError, match=r"^store ended; .*\nthe disk is full"):
        table.wait("server", lambda: False, 60, needs=["store"])


def test_a_disk_that_was_full_for_a_process_is_told_by_its_directory(table: ProcessTable, tmp_path: Path) -> None:
    trace = "print('panic: write wal: no space left on device'); print('main.go:40\\n' * 9)"
    table.start("store", [sys.executable, "-c", trace], os.environ)
    with pytest.raises(ClusterError, match=f"^store ended; no space left for {tmp_path}: make some"):
        table.wait("store", lambda: False, 60)


def test_missing_program_is_named(table: ProcessTable) -> None:
    with pytest.raises(ClusterError, match="cannot start etcd: /nowhere/etcd: No such file"):
        table.start("etcd", ["/nowhere/etcd"], os.environ)
