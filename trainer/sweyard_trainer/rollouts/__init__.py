"""Recorded attempts: one schema, a journal while a step goes on, then a Parquet file. Never imports torch."""
