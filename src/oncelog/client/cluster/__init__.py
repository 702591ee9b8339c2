"""A client's way to a cluster: brokers, connections, metadata, and look-ups over all of it."""
