"""Every decision, pure: no clock, no I/O, no randomness, no tasks."""
