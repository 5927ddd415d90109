"""`cli`: a command-line agent, run in the sandbox against the gateway."""
