"""`oncelog.process` in processes that are killed, paused and sent away; every record's outputs are there once."""
