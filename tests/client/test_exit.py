"""Producers that nobody stopped: what they have is sent at the interpreter's exit or it is said, and never for long."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator

import pytest

from oncelog import TopicPartition, sync
from oncelog.testing import TestBroker

BOUND_S = 25.0  # of a whole process on a busy machine


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with TestBroker({"num.partitions": "1", "listeners": "PLAINTEXT://localhost:0"}) as broker:
        yield broker.bootstrap_servers


def run(script: str, bootstrap: str, *, status: int = 0) -> list[str]:
    """What a process says on standard error."""
    text = "import asyncio, gc, sys\nimport oncelog\nfrom oncelog import sync\nBOOTSTRAP = sys.argv[1]\n"
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", text + textwrap.dedent(script), bootstrap], capture_output=True, text=True, timeout=60
    )
    assert time.monotonic() - began < BOUND_S
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()


def values(bootstrap: str, topic: str) -> list[bytes | None]:
    place = TopicPartition(topic, 0)
    with sync.Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign([place])
        consumer.seek(place, 0)
        found: list[bytes | None] = []
        while not consumer.at_end():
            found += [record.value for record in consumer.poll(200)]
        return found


def test_what_is_buffered_is_sent(bootstrap: str) -> None:
    """The connection to the leader is not open yet, and its name has to be looked up."""
    script = """
        producers = [sync.Producer(bootstrap_servers=BOOTSTRAP, linger_ms=60_000) for _ in range(2)]
        for producer in producers:
            producer.start()
            for n in range(3):
                producer.send("buffered", b"%d" % n)
        del producer, producers
    """
    assert run(script, bootstrap) == []
    assert sorted(values(bootstrap, "buffered")) == [b"0", b"0", b"1", b"1", b"2", b"2"]  # type: ignore[type-var]


def test_also_where_the_script_ends_with_an_exit_status(bootstrap: str) -> None:
    script = """
        producer = sync.Producer(bootstrap_servers=BOOTSTRAP)
        producer.start()
        producer.send("status", b"v")
        sys.exit(3)
    """
    assert run(script, bootstrap, status=3) == []
    assert values(bootstrap, "status") == [b"v"]


def test_what_is_stopped_or_flushed_has_nothing_to_say(bootstrap: str) -> None:
    script = """
        with sync.Producer(bootstrap_servers=BOOTSTRAP) as producer:
            producer.send("said", b"v")
        other = sync.Producer(bootstrap_servers=BOOTSTRAP)
        other.start()
        other.send("said", b"v")
        other.flush()

        async def main():
            async with oncelog.Producer(bootstrap_servers=BOOTSTRAP) as producer:
                await producer.send("said", b"v")
            global left
            left = oncelog.Producer(bootstrap_servers=BOOTSTRAP)
            await left.start()

        asyncio.run(main())
    """
    assert run(script, bootstrap) == []


def test_a_broker_that_is_away_does_not_hold_the_exit(bootstrap: str) -> None:
    script = """
        from oncelog.host import loop_thread
        from oncelog.testing import FaultyProxy

        loop_thread.LAST_WORDS_TIMEOUT_MS = 1000
        with FaultyProxy(BOOTSTRAP) as proxy:
            producer = sync.Producer(bootstrap_servers=proxy.bootstrap_servers)
            producer.start()
            producer.send_and_wait("away", b"0")
            producer.partitions_for("other")
        for n in range(3):
            producer.send("away", b"v")
        producer.send("other", b"v")
    """
    with sync.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics({"other": 1})
    (line,) = run(script, bootstrap)
    assert "not done within 1000 ms: 4 records for away, other were not acknowledged" in line


def test_a_callback_that_holds_the_thread_does_not_hold_the_exit(bootstrap: str) -> None:
    script = """
        import time
        from oncelog.host import loop_thread

        loop_thread.LAST_WORDS_TIMEOUT_MS, loop_thread.LAST_WORDS_GRACE_S, loop_thread.EXIT_TIMEOUT_S = 500, 0.5, 0.5
        producer = sync.Producer(bootstrap_servers=BOOTSTRAP, linger_ms=60_000)
        producer.start()
        for n in range(2):
            producer.send("held", b"v")
        producer._owner.loop.call_soon_threadsafe(time.sleep, 60)
    """
    (line,) = run(script, bootstrap)
    assert "the interpreter ended: 2 records for held were not acknowledged" in line


def test_a_transaction_that_is_open_is_aborted(bootstrap: str) -> None:
    script = """
        producer = sync.Producer(bootstrap_servers=BOOTSTRAP, transactional_id="left-open")
        producer.start()
        producer.begin_transaction()
        producer.send_and_wait("aborted", b"v")
        producer.send("aborted", b"v")
    """
    (line,) = run(script, bootstrap)
    assert "inside a transaction of 'left-open': it was aborted" in line
    with sync.Admin(bootstrap_servers=bootstrap) as admin:
        assert admin.describe_transactions(["left-open"])["left-open"].state in ("PrepareAbort", "CompleteAbort")
    assert values(bootstrap, "aborted") == []


def test_a_transaction_that_cannot_be_aborted_any_more_is_said(bootstrap: str) -> None:
    script = """
        from oncelog.host import loop_thread
        from oncelog.testing import FaultyProxy

        loop_thread.LAST_WORDS_TIMEOUT_MS = 500
        with FaultyProxy(BOOTSTRAP) as proxy:
            options = {"bootstrap_servers": proxy.bootstrap_servers, "transactional_id": sys.argv[2]}
            producer = sync.Producer(**options, transaction_two_phase_commit_enable=sys.argv[2] == "for-ever")
            producer.start()
            producer.begin_transaction()
            producer.send_and_wait("undecided", b"v")
    """
    (line,) = run(script.replace("sys.argv[2]", "'for-a-while'"), bootstrap)
    assert (
        "the transaction of 'for-a-while' is open until the broker aborts it, transaction_timeout_ms=60000 after"
        in line
    )
    (line,) = run(script.replace("sys.argv[2]", "'for-ever'"), bootstrap)
    assert "the transaction of 'for-ever' is open until the next start with this id, or an operator" in line


STARTED = """
    async def main(**config):
        global producer
        producer = oncelog.Producer(bootstrap_servers=BOOTSTRAP, linger_ms=60_000, **config)
        await producer.start()
        for n in range(3):
            await producer.send("unsent", b"v")
"""


@pytest.mark.parametrize(
    ("end", "why"),
    [
        ("asyncio.run(main())", "its event loop ended"),
        ("loop = asyncio.new_event_loop(); loop.run_until_complete(main())", "the interpreter ended"),
        ("loop = asyncio.new_event_loop(); loop.run_until_complete(main()); loop.close()", "the interpreter ended"),
        ("asyncio.run(main()); del producer; gc.collect()", "its event loop ended"),
        (
            "loop = asyncio.new_event_loop(); loop.run_until_complete(main()); loop.close(); del loop, producer; gc.collect()",
            "nobody holds it any more",
        ),
    ],
)
def test_an_asynchronous_one_says_what_it_has(bootstrap: str, end: str, why: str) -> None:
    with sync.Admin(bootstrap_servers=bootstrap) as admin:
        if "unsent" not in admin.list_topics():
            admin.create_topics({"unsent": 1})
    lines = run(textwrap.dedent(STARTED) + end, bootstrap)
    (line,) = [each for each in lines if each.startswith("producer")]  # asyncio says a word of its own for each task
    assert line.startswith(f"producer 'oncelog' was not stopped, and {why}"), lines
    assert "3 records for unsent were not acknowledged; use `async with`" in line


def test_what_was_begun_is_waited_for_at_the_interpreters_exit(bootstrap: str) -> None:
    script = """
        from oncelog.host.loop_thread import loop_thread
        async def work():
            await asyncio.sleep(0.1)
            print("was done", file=sys.stderr, flush=True)
        loop_thread().begin(work, lambda _: None)
    """
    assert run(script, bootstrap) == ["was done"]
