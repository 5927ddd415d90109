"""Runtimes: where sandboxes come from, one package each."""
