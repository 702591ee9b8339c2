"""Whether the logs of a data directory agree: replaying a partition, reading decisions, judging both together."""
