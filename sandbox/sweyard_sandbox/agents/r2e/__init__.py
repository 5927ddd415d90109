"""`r2e`: the tools and the call syntax of R2E-Gym's agent."""
