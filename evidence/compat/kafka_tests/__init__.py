"""Apache Kafka's own tests of share groups and streams groups, from Maven, unmodified, against both brokers."""
