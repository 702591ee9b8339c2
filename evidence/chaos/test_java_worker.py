"""Apache Kafka's Java client writes the same journal as the others, where it can be had."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time

import pytest

from evidence.chaos.java_worker import java_worker
from evidence.compat.clients.programs import Missing
from evidence.crash.broker_process import BrokerProcess
from evidence.crash.journal import merged
from evidence.crash.run import create_topics
from evidence.crash.verify import Verdict, judge, read_all
from oncelog.checker.history import read_history

pytestmark = [pytest.mark.slow, pytest.mark.compat]
TRANSACTIONS = 40


@pytest.fixture
def command():
    try:
        return java_worker(fetches=False)
    except Missing as missing:
        pytest.skip(str(missing))


def test_its_journal_is_what_the_log_holds(tmp_path, command):
    broker = BrokerProcess(tmp_path)
    broker.launch()
    try:
        broker.wait_ready()
        asyncio.run(create_topics(broker.bootstrap))
        journal = tmp_path / "java.jsonl"
        arguments = [broker.bootstrap, str(journal), "8", str(TRANSACTIONS)]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
        operations = read_history(merged([journal]))
        verdict = Verdict()
        views = [asyncio.run(read_all(broker.bootstrap, level)) for level in ("read_uncommitted", "read_committed")]
        judge(operations, *views, verdict)
        assert verdict.is_good, verdict.problems
        assert verdict.committed_transactions + verdict.aborted_transactions == TRANSACTIONS
        assert min(verdict.committed_transactions, verdict.aborted_transactions) > 0
        values = [send.value for operation in operations for send in operation.sends]
        assert min(values) == 800_000_001
    finally:
        broker.kill()


def test_it_ends_what_it_is_at_when_it_is_told_to_stop(tmp_path, command):
    broker = BrokerProcess(tmp_path)
    broker.launch()
    try:
        broker.wait_ready()
        asyncio.run(create_topics(broker.bootstrap))
        journal = tmp_path / "java.jsonl"
        with (tmp_path / "java.log").open("wb") as log:
            process = subprocess.Popen([*command, broker.bootstrap, str(journal), "8"], stdout=log, stderr=log)
        try:
            while process.poll() is None and not (journal.exists() and '"ok"' in journal.read_text()):
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            assert process.wait(200) == 0, (tmp_path / "java.log").read_text()
        finally:
            process.kill()
            process.wait()
        operations = read_history(merged([journal]))
        assert {operation.type for operation in operations} <= {"ok", "fail"}
    finally:
        broker.kill()
