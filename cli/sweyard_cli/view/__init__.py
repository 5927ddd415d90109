"""Following a run: where its state comes from and how it is drawn."""
