"""Handlers of groups and their offsets."""
