"""Our clients and tools on Apache Kafka as three brokers, of which one after the other is killed."""
