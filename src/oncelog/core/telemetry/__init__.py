"""What a client decides of pushing its metrics (KIP-714)."""
