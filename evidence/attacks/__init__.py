"""Attacks on a secured broker, by kind: real bytes over real sockets, what the attacker gets, what the log says, who is still served."""
