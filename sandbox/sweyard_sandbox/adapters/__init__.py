"""Sandboxes for other programs: a training loop of one's own, SWE-ReX, Harbor (examples/adapters/)."""
