"""The consumer: positions, fetching, groups of both protocols, transaction order."""
