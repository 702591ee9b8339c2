"""This node's partitions: logs, syncs, waiting fetches, checkpoints, cleaning."""
