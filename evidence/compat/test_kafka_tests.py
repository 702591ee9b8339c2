"""Some of Kafka's own tests, unmodified, against oncelog; `make kafka-tests` runs all of them against both brokers."""

from __future__ import annotations

import pytest

from evidence.compat.clients.programs import Missing
from evidence.compat.kafka_tests import table
from evidence.compat.kafka_tests.clusters import OncelogBrokers, Served
from evidence.compat.kafka_tests.runs import KafkasTests
from evidence.compat.servers import ONCELOG
from oncelog.broker.config.config import rules

SOME = {
    "share-requests": ("testShareFetchRequestSuccess", "testShareFetchRequestPiggybackedRelease"),
    "streams-requests": ("testMemberLeaveHeartbeat",),
}


@pytest.mark.timeout(600)
def test_some_of_kafkas_tests_pass(tmp_path):
    try:
        tests = KafkasTests()
    except Missing as missing:
        pytest.skip(f"Kafka's tests: {missing}")
    with OncelogBrokers(tmp_path / "brokers.log", frozenset(rules())) as brokers, Served(brokers) as served:
        found = [each for name, methods in SOME.items() for each in tests.run(name, served.port, "suite", methods)]
    passed = [each for each in found if each.status == "passed"]
    assert table.worse({ONCELOG: found}) == [], found
    assert len(passed) >= sum(map(len, SOME.values()))
