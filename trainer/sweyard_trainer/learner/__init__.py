"""The torch side: sequences in, optimizer steps out."""
