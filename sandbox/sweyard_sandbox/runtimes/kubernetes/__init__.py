"""Sandboxes as pods of a RolloutPool, each with one open exec stream."""
