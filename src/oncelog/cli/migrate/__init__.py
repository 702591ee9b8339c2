"""`oncelog migrate`: topics and their groups to another broker, exactly once."""
