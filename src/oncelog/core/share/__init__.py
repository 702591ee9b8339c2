"""Share partitions (KIP-932): which records of a partition a share group has acquired, and what became of them."""
