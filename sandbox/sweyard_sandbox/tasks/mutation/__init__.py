"""Bugs by syntax-tree mutation: which places of a module can be broken, and how."""
