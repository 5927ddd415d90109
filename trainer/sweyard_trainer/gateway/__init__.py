"""The gateway: conversations in, exact token records out."""
