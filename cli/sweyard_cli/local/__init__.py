"""Runs without a cluster: the trainer as a process of this machine."""
