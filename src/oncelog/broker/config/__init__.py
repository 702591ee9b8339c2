"""Configuration: Kafka's keys, where their values come from, what may change while it runs."""
