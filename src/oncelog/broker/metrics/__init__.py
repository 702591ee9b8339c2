"""What is counted, what it is called, and how it is shown."""
