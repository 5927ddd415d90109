"""A real Kubernetes on one Linux machine without Docker, for tests and demos."""
