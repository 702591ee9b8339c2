"""Listening, connections, and how many of them: bytes in, requests out, replies in order."""
