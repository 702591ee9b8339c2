"""What stands before the handlers: access rules, quotas, bounds on how many there may be."""
