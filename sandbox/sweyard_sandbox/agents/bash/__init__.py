"""`bash`: one shell command a turn, as mini-swe-agent works."""
