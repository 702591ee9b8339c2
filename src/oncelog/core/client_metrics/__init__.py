"""What a broker decides of the metrics that clients push (KIP-714)."""
