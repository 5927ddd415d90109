"""One pass over one object: observe, plan, execute."""
