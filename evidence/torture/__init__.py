"""What nobody should do to a client: every call cancelled at every await, every argument wrong; then it is used on."""
