"""Manifests: pure functions of names and specs."""
