"""make demo: the same TrainingRun without a cluster, on a native one, on kind, or on yours."""
