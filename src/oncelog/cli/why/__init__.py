"""`oncelog why`: what a name means, what is asked about it, and how the causes are told."""
