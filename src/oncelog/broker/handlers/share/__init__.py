"""Share groups (KIP-932): membership, records, offsets."""
