"""Progress: what the run tells people while it runs."""
