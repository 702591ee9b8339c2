"""`oncelog watch`: who holds readers back, look after look, for a person, a pipe and Prometheus."""
