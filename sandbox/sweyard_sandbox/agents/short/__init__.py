"""`short`: an agent for a very small model. It is told the line of the fault, and repairs it by one-line calls."""
