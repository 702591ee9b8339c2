"""The command line: `oncelog` and the drop-in `kafka-transactions`. It reaches a broker only through the client."""
