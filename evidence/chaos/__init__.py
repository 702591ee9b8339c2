"""Real processes, hostile surroundings: networks that are cut, disks that are full, processes that stop or die."""
