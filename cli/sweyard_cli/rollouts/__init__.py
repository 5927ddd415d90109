"""Recorded attempts on the terminal. Loads pyarrow, never torch."""
