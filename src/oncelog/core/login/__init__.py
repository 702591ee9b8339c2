"""A client's side of SASL: what it says to a broker, and what it must be told before it believes it."""
