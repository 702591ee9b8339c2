"""Hostile starts of every command: what a person, a script or an attacker may type; never a traceback, never a hang."""
