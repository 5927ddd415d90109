"""Grading: in a fresh sandbox, by the data set's own rule (official) and by ours (strict)."""
