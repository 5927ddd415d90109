"""Rollouts: attempts at tasks, in groups, in steps."""
