"""Transaction lanes: batch headers and markers of partitions in, spans of transactions and their picture out."""
