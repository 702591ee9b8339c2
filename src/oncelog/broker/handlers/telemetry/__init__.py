"""Handlers of what clients push about themselves."""
