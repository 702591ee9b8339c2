"""Paired measurements of oncelog and Apache Kafka."""
