"""Clients that ask for what must be refused: whatever they do, nothing may change (docs/simulator.md)."""
