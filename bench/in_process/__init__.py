"""What the broker itself costs: frames into its connection, replies out of it, without a socket, a disk or a thread."""
