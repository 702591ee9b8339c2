"""What must hold, whatever went wrong. Each module judges one kind of promise and knows nothing of the faults."""
