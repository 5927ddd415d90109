"""Talking to a cluster's API server on the user's behalf."""
