"""A broker for tests, and faults between it and its clients: pytest plugin `oncelog` and the same without pytest."""

from oncelog.testing.broker import TestBroker
from oncelog.testing.proxy import FaultyProxy

__all__ = ["FaultyProxy", "TestBroker"]
