"""Who may do what: the authorizer, and the check that stands before each API."""
