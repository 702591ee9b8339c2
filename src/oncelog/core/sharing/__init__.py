"""A share consumer's decisions: what it has, what is said of it, and in which session (KIP-932)."""
