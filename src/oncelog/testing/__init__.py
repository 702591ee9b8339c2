"""A broker for tests: pytest plugin `oncelog` and the same without pytest."""

from oncelog.testing.broker import TestBroker

__all__ = ["TestBroker"]
