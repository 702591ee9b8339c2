"""Share groups on this node: what is stored of their records, and the share partitions that are open."""
