"""Processing."""
