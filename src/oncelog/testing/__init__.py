"""A broker for tests, faults between it and its clients, what a test says of transactions: pytest plugin `oncelog`, and the same
without pytest."""

from oncelog.testing.assertions import (
    assert_committed_once,
    assert_no_open_transactions,
    committed_records,
    open_transactions,
)
from oncelog.testing.broker import TestBroker
from oncelog.testing.proxy import FaultyProxy

__all__ = [
    "FaultyProxy",
    "TestBroker",
    "assert_committed_once",
    "assert_no_open_transactions",
    "committed_records",
    "open_transactions",
]
