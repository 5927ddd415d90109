"""What agents can do in a sandbox, one tool a file. A tool answers with words for the model and never raises for it."""
