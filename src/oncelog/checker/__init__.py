"""Does a recorded history of transactions keep its promises? Reads what workloads wrote, knows nothing of brokers."""
