"""The operator: reconciles TrainingRun, RolloutPool and ImageCache."""
