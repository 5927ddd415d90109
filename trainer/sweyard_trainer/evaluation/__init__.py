"""What held-out attempts say about a policy: pass@k and best@k with an interval, by source and by repository."""
