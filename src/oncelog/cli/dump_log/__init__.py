"""`oncelog dump-log`."""
