"""Images on nodes: what a run needs before anything is pulled, and what the nodes of a cluster hold."""
