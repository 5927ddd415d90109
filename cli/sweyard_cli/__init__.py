"""The command line: sweyard, also as kubectl sweyard."""
