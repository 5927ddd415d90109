"""Bring new weights into the engines, and have each confirm them."""
