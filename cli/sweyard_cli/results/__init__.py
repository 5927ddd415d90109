"""What a run left in its directory, read tolerantly: the run may still be writing, or may have failed early."""
