"""A busy, healthy broker, and `oncelog why` asked about everything on it: whatever it finds is a false alarm."""
