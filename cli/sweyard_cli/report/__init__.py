"""What a finished run leaves for people: figures, a curve, one HTML page."""
