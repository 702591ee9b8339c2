"""Continuous evidence: every tool that tries to break a promise is run, recorded and shown (docs/proof.md)."""
