"""Two kills of a real broker under load, verified; and a broker that loses what it had acknowledged is found out."""

import asyncio
import contextlib

import pytest

from evidence.crash.broker_process import BrokerProcess
from evidence.crash.run import Run, create_topics
from oncelog.wire.record_batch import batches

pytestmark = pytest.mark.slow


def test_kills_lose_nothing(tmp_path):
    outcome = Run(tmp_path, 2, seed=7, kinds=("tv2", "tv1", "idempotent", "copy", "two_phase")).everything()
    verdict = outcome.verdict
    assert verdict.is_good, verdict.problems
    assert outcome.kills == 2
    assert verdict.acknowledged >= 5  # one of each kind is waited for; more are a matter of the machine
    assert verdict.committed_transactions >= 4
    assert outcome.produce_s
    assert outcome.summary().startswith("2 kills of the broker, 0 anomalies, recovery p50 ")
    assert outcome.summary().endswith("; 0 lost, 0 duplicated, 0 aborted visible, 0 torn, 0 open")
    assert outcome.figures()["episodes"] == {"kills of the broker": 2}


def test_a_lost_batch_is_found(tmp_path):
    """Between kill and restart the last acknowledged batch of each partition of one topic goes."""

    def lose(data):
        for log in data.glob("crash.plain-*/*.log"):
            content = log.read_bytes()
            log.write_bytes(content[: sum(batch.size_bytes for batch in list(batches(content))[:-1])])

    verdict = Run(tmp_path, 1, seed=7, kinds=("idempotent",), between=lose, journals=("off",)).everything().verdict
    assert verdict.lost >= 2
    assert not verdict.is_good
    assert any(problem.startswith("history: ") for problem in verdict.problems)


def test_recovery_is_measured_to_an_acknowledged_record(tmp_path):
    broker = BrokerProcess(tmp_path)
    broker.launch()
    try:
        ready_s = broker.wait_ready()
        asyncio.run(create_topics(broker.bootstrap))
        produce_s, offset = broker.first_produce("crash.probe", 1)
        assert produce_s >= ready_s > 0
        assert offset == 0
        assert broker.stop() == 0
    finally:
        with contextlib.suppress(ValueError):
            broker.kill()
