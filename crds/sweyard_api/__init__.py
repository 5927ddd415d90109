"""The sweyard.dev/v1alpha1 API: the only definition of TrainingRun, RolloutPool and ImageCache.

Everything else (CRD YAML, validation, reference documentation) is generated from these models.
Imports nothing but pydantic and yaml, so that every component can afford it.
"""
