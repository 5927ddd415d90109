"""Sandboxes as containers of a Docker engine (or anything with its command line, such as podman)."""
