"""What should be done: pure functions of spec, observed state and time."""
