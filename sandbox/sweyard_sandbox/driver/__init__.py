"""The driver: a shell program in the sandbox, its wire format, and the client that keeps one stream to it."""
