"""`oncelog transactions` and the drop-in `kafka-transactions`."""
