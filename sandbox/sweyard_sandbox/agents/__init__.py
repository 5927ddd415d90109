"""Agents: who acts in a sandbox, one file each."""
