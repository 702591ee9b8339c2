"""The share consumer (KIP-932): records one by one, acknowledged one by one."""
