"""The simulated world: one thread, virtual time, a network and disks that fail as the seed says."""
