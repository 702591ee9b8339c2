"""The Spark format on a cluster whose workers are other processes: `make spark-cluster`."""
