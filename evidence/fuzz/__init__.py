"""Hostile input of every kind, repeatable by seed: `make fuzz SECONDS=600`. What was found once is in test_found.py."""
