"""What micro-batches leave on a broker: transactional ids, producer ids, decisions, memory (`make spark-ids`)."""
