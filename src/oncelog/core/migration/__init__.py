"""Moving topics to another broker: how far, where a position lands, what the verdict is. Pure."""
