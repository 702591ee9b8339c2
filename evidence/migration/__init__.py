"""Topics are moved to another broker while they are written and read, and who moves them is killed."""
