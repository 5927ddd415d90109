"""Data sets as people look at them."""
