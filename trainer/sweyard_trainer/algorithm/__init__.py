"""The learning rule as pure functions of tensors: no model, no processes, no configuration objects."""
