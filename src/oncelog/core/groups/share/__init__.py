"""Share groups (KIP-932): members and who reads which partitions; what becomes of records is decided in `core/share`."""
