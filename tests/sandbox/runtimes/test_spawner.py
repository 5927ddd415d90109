"""The process that forks sandboxes outlives its host by no more than its own clearing up."""

import json
import socket
import subprocess
import sys
from pathlib import Path


def test_a_host_that_goes_while_it_waits_for_an_answer_leaves_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "sandboxes"
    folder.mkdir()
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "sweyard_sandbox.runtimes.local.spawner", str(theirs.fileno())]
    ours.send(json.dumps({"op": "own", "folder": str(folder)}).encode())
    ours.close()  # before the spawner is there to answer
    with theirs:
        done = subprocess.run(
            command, pass_fds=[theirs.fileno()], capture_output=True, text=True, check=False, timeout=120
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert not folder.exists()
