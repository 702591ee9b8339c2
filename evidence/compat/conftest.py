"""The broker under other people's clients, with short waits, and names nobody used before."""

from __future__ import annotations

import itertools
import os

import pytest

from evidence.compat.kafka_python_sockets import closed_at_the_end
from oncelog.testing.broker import TestBroker

CONFIG = {
    "num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "group.min.session.timeout.ms": "1000",
}
# Java tools take minutes: `make conformance` asks for them.
collect_ignore = (
    []
    if os.environ.get("ONCELOG_CONFORMANCE")
    else [
        "test_apache_tools.py",
        "test_apache_tools_compared.py",
        "test_apache_reads_our_files.py",
        "test_cleans_as_apache.py",
        "test_client_metrics.py",
    ]
)
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def bootstrap_servers():
    """One broker for all tests of a file."""
    with TestBroker(CONFIG) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def name():
    """A name that nobody used before, for topics, transactional ids and groups."""
    return f"n{os.getpid()}-{next(_numbers)}"


@pytest.fixture(autouse=True)
def _closed_sockets():
    """Torn down after the clients of a test."""
    with closed_at_the_end():
        yield
