"""What a run goes through, a phase a file; train.py puts them in order."""
