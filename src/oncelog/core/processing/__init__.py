"""Consume, transform, produce, exactly once: what is done next, and after which failure."""
