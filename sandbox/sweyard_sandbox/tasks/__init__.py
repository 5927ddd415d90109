"""Tasks: where they come from and what one is."""
