"""The consumer's own machines: membership, assignors, fetch sessions, what read_committed hides."""
