"""Two-phase commit with an outside decision: dual writes, and the exactly-once sink of Spark."""
