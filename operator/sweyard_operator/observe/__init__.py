"""What exists: read from the caches and the API server into frozen values."""
