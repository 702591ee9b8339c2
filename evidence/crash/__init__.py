"""Evidence of what survives: real kills, power cuts at every write, disks that fail. `make crash` runs the kills."""
