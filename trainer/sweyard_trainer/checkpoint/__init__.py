"""Exact resume: weights, optimizer, random numbers, and whatever the main loop wants kept."""
