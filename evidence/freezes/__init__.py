"""Readers that stand still, in each of twelve ways and on both brokers: what `oncelog why` says, and what its command does."""
