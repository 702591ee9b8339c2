"""A request on its way: what a handler gets, what it may answer with."""
