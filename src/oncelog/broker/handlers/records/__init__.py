"""Handlers of records: produce, fetch, offsets."""
