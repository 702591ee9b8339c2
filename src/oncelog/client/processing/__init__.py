"""Consume, transform, produce, exactly once, in one call."""
