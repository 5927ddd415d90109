"""The comparison on real nodes ends up in the one line of figures."""

import json
from typing import Any

import pytest
from benchmarks import image_cache, image_peer

PEER = {
    "peer": {"seconds": 40.0},
    "peer_seconds_ratio": 0.6,
    "peer_bytes_ratio": 0.5,
    "warm_start_fraction": 1.0,
    "wave_seconds_ratio": 0.5,
    "budget_exceeded_bytes": 0,
}


def run_main(monkeypatch: pytest.MonkeyPatch, *arguments: str, peer: dict[str, Any]) -> None:
    monkeypatch.setattr("sys.argv", ["image_cache", "--images", "20", "--nodes", "8", *arguments])
    monkeypatch.setattr(image_cache, "time_plans", lambda seed: (0.5, 0.25))
    monkeypatch.setattr(image_peer, "require_root", lambda module: None)
    monkeypatch.setattr(image_peer, "run", lambda num_images, num_nodes: peer)
    image_cache.main()


def test_with_peer_the_last_line_has_the_figures_of_real_nodes_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_main(monkeypatch, "--peer", peer=PEER)
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {name: figures[name] for name in image_cache.PEER_KEYS} == {
        name: PEER[name] for name in image_cache.PEER_KEYS
    }
    assert figures["plan_s"] == 0.5
    assert "balance" in figures
    assert "peer" not in figures


def test_without_it_no_cluster_is_made(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run_main(monkeypatch, peer={})
    assert not set(image_cache.PEER_KEYS) & set(json.loads(capsys.readouterr().out.splitlines()[-1]))


def test_what_was_not_measured_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyError, match="warm_start_fraction"):
        run_main(monkeypatch, "--peer", peer={name: 1 for name in PEER if name != "warm_start_fraction"})
