"""The gateway as a cluster runs it: a process of its own with two ports, ended by SIGTERM."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
from transformers import PreTrainedTokenizerFast

from sweyard_api.resolve import dump_config, resolve

START_SECONDS = 120
SPEC: dict[str, Any] = {"model": {"scratch": {}}, "tasks": {"train": {"dataset": "d"}}}


def test_both_ports_serve_until_sigterm(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path, unused_tcp_port_factory: Any
) -> None:
    tokenizer.save_pretrained(tmp_path / "storage" / "model")
    config = tmp_path / "config.yaml"
    config.write_text(dump_config(resolve(SPEC)))
    public, admin = unused_tcp_port_factory(), unused_tcp_port_factory()
    ports = ["--port", str(public), "--admin-port", str(admin), "--host", "127.0.0.1"]
    command = [sys.executable, "-m", "sweyard_trainer.gateway", "--config", str(config), *ports]
    environment = {**os.environ, "SWEYARD_STORAGE": str(tmp_path / "storage")}
    process = subprocess.Popen(command, env=environment)
    try:
        wait_for(f"http://127.0.0.1:{admin}/healthz", process)
        refused = httpx.post(f"http://127.0.0.1:{public}/v1/chat/completions", json={"messages": []})
        assert refused.status_code == 401
        assert httpx.get(f"http://127.0.0.1:{public}/sessions").status_code == 404
        assert httpx.post(f"http://127.0.0.1:{admin}/sessions", json={"id": "a"}).status_code == 422
        session = {"id": "a", "token": "t", "temperature": 1.0, "seed": 0, "weight_version": 3}
        assert httpx.post(f"http://127.0.0.1:{admin}/sessions", json=session).status_code == 409
        assert "libtorch" not in Path(f"/proc/{process.pid}/maps").read_text(), "half a gigabyte that it does not need"
        assert "sweyard_gateway_sessions 0.0" in httpx.get(f"http://127.0.0.1:{admin}/metrics").text
    finally:
        process.terminate()
        code = process.wait(30)
    assert code in (0, -15)


def wait_for(url: str, process: "subprocess.Popen[bytes]") -> None:
    give_up_at = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up_at:
        assert process.poll() is None
        try:
            assert httpx.get(url, timeout=2).status_code == 200
            return
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError(f"{url} did not answer in {START_SECONDS} s")
