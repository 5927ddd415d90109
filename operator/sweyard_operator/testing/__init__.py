"""Shipped fakes: an API server in memory that can lie, and a clock that does not wait."""
