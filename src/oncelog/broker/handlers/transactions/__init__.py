"""Handlers of transactions."""
