"""The leader's rules of one partition: what may be appended, what markers do, how far readers see."""
