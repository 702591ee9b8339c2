"""Attacks on a secured broker, by kind: real bytes over real sockets; what one gets, what the log says, who is served."""
