"""Is this cluster fit for runs: facts are gathered, then judged by pure checks."""
