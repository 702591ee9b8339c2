"""A checkpoint of Spark's own Kafka source, taken over in mid-stream: `make spark-adoption`."""
