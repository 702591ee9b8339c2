"""Handlers whose answer is that there is one node, or nothing of the kind here."""
