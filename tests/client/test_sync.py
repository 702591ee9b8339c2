"""The clients without async: threads, notebooks, forks, and the same behaviour as the async ones."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
import threading

import pytest

from oncelog import Broker, PreparedTxnState, RebalanceListener, TopicPartition, errors, sync
from oncelog.client.consumer import iteration
from oncelog.client.producer.producer import Producer as AsyncProducer
from oncelog.host.loop_thread import Call, loop_thread
from oncelog.hot_paths import compiled
from tests.interrupts import Interrupts


@pytest.fixture(scope="module")
def bootstrap():
    async def start() -> Broker:
        broker = Broker(config={"num.partitions": "2", "transaction.two.phase.commit.enable": "true"})
        await broker.start()
        return broker

    broker = loop_thread().call(start)
    yield broker.bootstrap_servers
    loop_thread().call(broker.stop)


def read_all(bootstrap, topic):
    """Everything, once no transaction is open on the topic (EndTxn is answered before its markers are written)."""
    config = {"bootstrap_servers": bootstrap}
    with sync.Consumer(**config, isolation_level="read_committed") as consumer, sync.Consumer(**config) as whole:
        partitions = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic)]
        while consumer.end_offsets(partitions) != whole.end_offsets(partitions):
            pass
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        found = []
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            found += consumer.poll(timeout_ms=200)
        return found


def test_transactions(bootstrap):
    with sync.Producer(bootstrap_servers=bootstrap, transactional_id="a") as producer:
        with producer.transaction():
            sent = [producer.send("tx", b"%d" % n, partition=0) for n in range(3)]
        assert [record.result().offset for record in sent] == [0, 1, 2]
        with pytest.raises(ZeroDivisionError), producer.transaction():
            producer.send_and_wait("tx", b"no")
            raise ZeroDivisionError
        with producer.transaction():
            producer.send_many("tx", [(b"k", b"4"), (b"k", b"5")], partition=0)
    assert [r.value for r in read_all(bootstrap, "tx")] == [b"0", b"1", b"2", b"4", b"5"]


def test_what_is_sent_soon_does_not_linger(bootstrap):
    with sync.Producer(bootstrap_servers=bootstrap, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        first = producer.send("soon", b"0", partition=0)
        producer.send_soon()
        more = [producer.send("soon", b"%d" % n, partition=0) for n in (1, 2)]
        producer.send_soon()  # with the answer to what is on its way, if it still is
        assert [sent.result(30_000).offset for sent in (first, *more)] == [0, 1, 2]


def test_purge(bootstrap):
    with sync.Producer(bootstrap_servers=bootstrap, linger_ms=60_000) as producer:
        sent = producer.send("purged", b"v", partition=0)
        assert producer.purge(in_flight=False) == 1
        with pytest.raises(errors.PurgedInQueue):
            sent.result()
        assert producer.purge() == 0
        assert producer.metrics().failed_record_count == 1


def test_callbacks(bootstrap):
    told, both = [], threading.Semaphore(0)

    def callback(sent):
        told.append((threading.current_thread().name, sent.done(), sent.result().offset))
        both.release()

    with sync.Producer(bootstrap_servers=bootstrap) as producer:
        first = producer.send("told", b"v", partition=0)
        first.add_done_callback(callback)
        assert both.acquire(timeout=60)
        first.add_done_callback(callback)
        assert both.acquire(timeout=60)
    assert told == [("oncelog-sync", True, 0)] * 2


def test_errors_are_the_same(bootstrap):
    with sync.Producer(bootstrap_servers=bootstrap, transactional_id="e") as producer:
        with pytest.raises(errors.IllegalState, match="needs an open transaction"):
            producer.send("tx", b"v")
        with sync.Producer(bootstrap_servers=bootstrap, transactional_id="e"):
            producer.begin_transaction()
            with pytest.raises(errors.KafkaError):
                producer.send("tx", b"v").result()
    with pytest.raises(errors.ConfigurationError, match="did you mean 'linger_ms'"):
        sync.Producer(linger=1)


def test_a_loop_that_runs_here_does_not_matter(bootstrap):
    """A notebook cell."""

    async def cell() -> int:
        with sync.Producer(bootstrap_servers=bootstrap) as producer:
            return producer.send_and_wait("cell", b"v").offset

    assert asyncio.run(cell()) == 0


def test_many_threads_share_a_producer(bootstrap):
    with sync.Producer(bootstrap_servers=bootstrap) as producer:
        work = [
            threading.Thread(target=lambda n=n: [producer.send("threads", b"%d" % n) for _ in range(50)])
            for n in range(4)
        ]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        producer.flush()
    assert len(read_all(bootstrap, "threads")) == 200


needs_compiled = pytest.mark.skipif(not compiled()["appending"], reason="plain Python changes threads for each record")


@pytest.fixture
def changes_of_threads(monkeypatch):
    begun = []
    begin = Call.begin

    def counted(self) -> None:
        begun.append(self)
        begin(self)

    monkeypatch.setattr(Call, "begin", counted)
    return begun


@needs_compiled
def test_records_go_into_open_batches_without_a_change_of_threads(bootstrap, changes_of_threads):
    with sync.Producer(bootstrap_servers=bootstrap, linger_ms=1000, batch_size=100_000) as producer:
        producer.send_and_wait("beside", b"metadata", partition=0)
        changes_of_threads.clear()
        sent = [producer.send("beside", b"%d" % n, partition=0, headers=[("h", b"1")]) for n in range(1000)]
        assert len(changes_of_threads) < 10
        producer.flush()
        assert [each.result().offset for each in sent] == list(range(1, 1001))
        assert {each.error for each in sent} == {None}
    values = [(record.value, record.headers) for record in read_all(bootstrap, "beside")]
    assert values[1:] == [(b"%d" % n, (("h", b"1"),)) for n in range(1000)]


def test_wrong_records_are_refused_also_where_a_batch_is_open(bootstrap):
    with sync.Producer(bootstrap_servers=bootstrap, linger_ms=60_000) as producer:
        right = producer.send("refused", b"0", partition=0)
        for wrong, error in (
            ({"value": "text"}, errors.InvalidArgument),
            ({"value": b"v", "headers": [("h", 1)]}, errors.InvalidArgument),
            ({"value": b"v", "timestamp_ms": -2}, errors.InvalidArgument),
            ({"value": b"v", "partition": 7}, errors.InvalidPartitions),
            ({"value": bytes(2_000_000)}, errors.RecordTooLarge),
        ):
            with pytest.raises(error):
                producer.send("refused", **{"partition": 0, **wrong})
        producer.flush()
        assert right.result().offset == 0
    with pytest.raises(errors.IllegalState, match="was stopped"):
        producer.send("refused", b"late", partition=0)


def test_the_error_of_a_record_is_told(bootstrap):
    with sync.Producer(bootstrap_servers=bootstrap, linger_ms=60_000) as producer:
        sent = [producer.send("told-error", b"%d" % n, partition=0) for n in range(2)]
        assert sent[1].error is None
        producer.purge()
        assert isinstance(sent[1].error, errors.PurgedInQueue)
        producer.flush()  # it was asked about: nothing to raise


@pytest.fixture
def threads_change_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("threads_change_often")
def test_threads_keep_their_order_whatever_the_loop_does_meanwhile(bootstrap):
    """Small batches, and hardly any room: batches end, leave and are granted room while others are put into them."""
    count, told = 3000, {}
    config = {"batch_size": 400, "buffer_memory": 3000, "linger_ms": 1}

    def send(name: bytes) -> None:
        told[name] = [producer.send("order", b"%s %d" % (name, n), partition=0) for n in range(count)]

    with sync.Producer(bootstrap_servers=bootstrap, **config) as producer:
        threads = [threading.Thread(target=send, args=(name,)) for name in (b"a", b"b", b"c")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush()
        assert producer.metrics().buffered_bytes == 0
        places = {name: [each.result().offset for each in sent] for name, sent in told.items()}
    read = [record.value for record in read_all(bootstrap, "order")]
    assert len(read) == 3 * count
    for name, offsets in places.items():
        assert [read[offset] for offset in offsets] == [b"%s %d" % (name, n) for n in range(count)]
        assert offsets == sorted(offsets)


@pytest.mark.usefixtures("threads_change_often")
def test_what_was_taken_beside_a_commit_is_committed(bootstrap):
    """Another thread sends all the time: each record is refused, or in one of the transactions that were committed."""
    taken, is_over = [], threading.Event()
    wanted = 100 if compiled()["appending"] else 10

    def send() -> None:
        while not is_over.is_set():
            with contextlib.suppress(errors.IllegalState):
                taken.append(producer.send("beside-commit", b"%d" % len(taken), partition=0))

    with sync.Producer(bootstrap_servers=bootstrap, transactional_id="beside-commit", batch_size=400) as producer:
        thread = threading.Thread(target=send)
        thread.start()
        for count in range(3_000):  # on a busy machine the other thread may have had no turn yet in thirty
            if count >= 30 and len(taken) > wanted:
                break
            with producer.transaction():
                producer.send("beside-commit", b"begin", partition=1)
        is_over.set()
        thread.join()
        assert {each.done() for each in taken} == {True}
        assert producer.metrics().buffered_bytes == 0
    read = [record.value for record in read_all(bootstrap, "beside-commit") if record.partition == 0]
    assert read == [b"%d" % n for n in range(len(taken))]
    assert len(taken) > wanted


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # struck in a finalizer
def test_interrupts_tear_no_record_apart(bootstrap):
    """Real ones, anywhere, again and again: what was told to be sent is there once and in order."""

    is_armed = False

    def strike(*_: object) -> None:
        nonlocal is_armed
        if is_armed:
            is_armed = False
            raise KeyboardInterrupt

    taken: list[tuple[int, sync.SentRecord]] = []
    before = signal.signal(signal.SIGALRM, strike)
    with sync.Producer(bootstrap_servers=bootstrap, batch_size=2000, linger_ms=1) as producer:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0007)
            n = strikes = 0
            while strikes < 200:
                try:
                    n += 1
                    is_armed = True
                    sent = producer.send("struck", b"%d" % n, key=b"k")
                    is_armed = False
                    taken.append((n, sent))
                except KeyboardInterrupt:
                    strikes += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        producer.flush()
        assert producer.metrics().buffered_bytes == 0
    read = [int(record.value) for record in read_all(bootstrap, "struck")]
    assert read == sorted(set(read))
    assert {number for number, _ in taken} <= set(read)


def test_a_callback_of_the_clients_thread_may_not_send(bootstrap):
    said: list[str] = []
    asked = threading.Event()

    def callback(_: object) -> None:
        try:
            producer.send("from-callback", b"1", partition=0)
        except errors.IllegalState as error:
            said.append(str(error))
        asked.set()

    with sync.Producer(bootstrap_servers=bootstrap, linger_ms=60_000) as producer:
        first = producer.send("from-callback", b"0", partition=0)
        producer.flush()
        producer.send("from-callback", b"its batch is open", partition=0)
        first.add_done_callback(callback)
        assert asked.wait(60)
        producer.flush()
    assert "would wait for itself" in said[0]
    assert len(read_all(bootstrap, "from-callback")) == 2


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_an_end_of_the_process_raised_by_own_code_does_not_end_the_clients_thread(bootstrap, error):
    def deserializer(content):
        if content == b"the end":
            raise error
        return content

    topic = f"own-code-{type(error).__name__}"
    with sync.Producer(bootstrap_servers=bootstrap) as producer:
        for value in (b"0", b"the end"):
            producer.send_and_wait(topic, value, partition=0)
        with sync.Consumer(bootstrap_servers=bootstrap, value_deserializer=deserializer) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            consumer.seek(TopicPartition(topic, 0), 1)
            with pytest.raises(type(error)):
                consumer.poll(10_000)
        producer.send_and_wait(topic, b"1", partition=0)


def test_iteration_and_groups(bootstrap):
    with sync.Producer(bootstrap_servers=bootstrap) as producer:
        for n in range(5):
            producer.send_and_wait("it", b"%d" % n, partition=0)
    config = {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    with sync.Consumer.from_config(config, "it") as consumer:
        seen = []
        for record in consumer:
            seen.append(record.value)
            if len(seen) == 5:
                break
        consumer.commit()
        assert consumer.committed([TopicPartition("it", 0)])[TopicPartition("it", 0)].offset == 5
        assert consumer.group_metadata().group_id == "g"
    assert seen == [b"0", b"1", b"2", b"3", b"4"]


@pytest.fixture(scope="module")
def hundred(bootstrap):
    """A topic of a hundred records in one batch."""
    with sync.Producer(bootstrap_servers=bootstrap, linger_ms=1000) as producer:
        for n in range(100):
            producer.send("hundred", b"%d" % n, partition=0)
    return TopicPartition("hundred", 0)


def from_the_start(bootstrap, place, **config):
    consumer = sync.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", **config)
    consumer.assign([place])
    return consumer


@pytest.fixture
def no_looks_around(monkeypatch):
    monkeypatch.setattr(iteration, "LOOK_AROUND_MS", 60_000)


@pytest.mark.usefixtures("no_looks_around")
def test_records_at_hand_are_handed_out_without_a_change_of_threads(bootstrap, hundred, changes_of_threads):
    with from_the_start(bootstrap, hundred) as consumer:
        for take in (lambda: [next(consumer)], lambda: consumer.poll(max_records=1)):
            consumer.seek(hundred, 0)
            assert [record.offset for record in take()] == [0]
            changes_of_threads.clear()
            assert [record.offset for _ in range(98) for record in take()] == list(range(1, 99))
            assert not changes_of_threads
            assert consumer.position(hundred) == 99
            assert [record.offset for record in take()] == [99]


@pytest.mark.usefixtures("no_looks_around")
def test_what_is_stored_at_the_end_is_before_the_record_in_hand(bootstrap, hundred):
    for way, stored in (("iterate", 2), ("poll", 3), ("commit", 3)):
        config = {"group_id": f"in-hand-{way}", "auto_commit_interval_ms": 600_000}
        with from_the_start(bootstrap, hundred, **config) as consumer:
            for _ in range(3):
                assert consumer.poll(max_records=1) if way == "poll" else next(consumer)
            if way == "commit":
                consumer.commit()
                assert next(consumer).offset == 3
        with from_the_start(bootstrap, hundred, **config) as consumer:
            assert consumer.committed([hundred])[hundred].offset == stored


@pytest.mark.usefixtures("no_looks_around")
def test_what_is_done_between_two_records_is_heeded(bootstrap, hundred):
    with from_the_start(bootstrap, hundred) as consumer:
        assert [next(consumer).offset for _ in range(3)] == [0, 1, 2]
        consumer.seek(hundred, 50)
        assert [next(consumer).offset for _ in range(3)] == [50, 51, 52]
        consumer.pause(hundred)
        assert consumer.poll(timeout_ms=50) == []
        consumer.resume(hundred)
        assert [record.offset for record in consumer.poll(max_records=2)] == [53, 54]
        assert next(consumer).offset == 55
        assert consumer.metrics().delivered_record_count == 9
        stopper = threading.Thread(target=consumer.stop)
        stopper.start()
        stopper.join()
        assert list(consumer) == []


@pytest.mark.usefixtures("threads_change_often")
def test_threads_that_share_a_consumer_get_each_record_once(bootstrap, hundred):
    found: list[int] = []

    def read(consumer) -> None:
        for n in range(25):
            found.extend(record.offset for record in ([next(consumer)] if n % 2 else consumer.poll(max_records=1)))

    with from_the_start(bootstrap, hundred) as consumer:
        threads = [threading.Thread(target=read, args=(consumer,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert consumer.position(hundred) == 100
    assert sorted(found) == list(range(100))


def test_wrong_arguments_of_poll_are_told_also_where_records_are_at_hand(bootstrap, hundred):
    with from_the_start(bootstrap, hundred) as consumer:
        for wrong in ({"timeout_ms": -1}, {"timeout_ms": 1.5}, {"max_records": 0}, {"max_records": True}):
            assert consumer.poll(max_records=1)
            with pytest.raises(errors.InvalidArgument):
                consumer.poll(**wrong)


def test_two_phase_commit(bootstrap):
    config = {"bootstrap_servers": bootstrap, "transactional_id": "2pc", "transaction_two_phase_commit_enable": True}
    with sync.Producer(**config) as producer:
        producer.begin_transaction()
        producer.send("2pc", b"kept")
        state = str(producer.prepare_transaction())
    with sync.Producer(**config) as producer:
        assert str(producer.prepared_state) == state
        producer.complete_transaction(PreparedTxnState(state))
    assert [r.value for r in read_all(bootstrap, "2pc")] == [b"kept"]


def test_admin(bootstrap):
    with sync.Admin.from_config({"bootstrap.servers": bootstrap}) as admin:
        admin.create_topics({"made": {"partitions": 3}})
        assert "made" in admin.list_topics()
        assert admin.describe_features().finalized["transaction.version"] == 3
        assert admin.describe_broker_configs()["transaction.two.phase.commit.enable"] == "true"
        assert admin.list_transactions(states=["Ongoing"], pattern="nobody") == []


def test_an_open_transaction_is_not_hidden_by_how_its_state_is_written(bootstrap):
    with (
        sync.Admin(bootstrap_servers=bootstrap) as admin,
        sync.Producer(bootstrap_servers=bootstrap, transactional_id="open-now") as producer,
    ):
        producer.begin_transaction()
        producer.send_and_wait("opened", b"1")
        assert "open-now" in [each.transactional_id for each in admin.list_transactions(states=["ongoing"])]
        producer.abort_transaction()
        for call in (admin.list_transactions, admin.list_groups):
            with pytest.raises(errors.InvalidArgument, match=r"states\[0\] must be one of Empty, .*, not 'Opened'"):
                call(states=["Opened"])
        with pytest.raises(errors.InvalidArgument, match="types"):
            admin.list_groups(types=["Classical"])
        assert admin.list_groups(types="Streams") == []


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_must_make_its_own_clients(bootstrap):
    with sync.Producer(bootstrap_servers=bootstrap, linger_ms=1000) as producer:
        producer.send("fork", b"parent", partition=0)
        reading, writing = os.pipe()
        if os.fork() == 0:
            said = b"nothing"
            try:
                producer.send("fork", b"into the parent's batch", partition=0)
            except errors.IllegalState as error:
                said = str(error).encode()
            with sync.Producer(bootstrap_servers=bootstrap) as own:
                said += b" / %d" % (own.send_and_wait("fork", b"child", partition=0).offset >= 0)
            producer.stop()  # leaves the parent's connections alone
            os.write(writing, said)
            os._exit(0)
        os.close(writing)
        said = os.read(reading, 1000)
        os.close(reading)
        os.wait()
        producer.send_and_wait("fork", b"parent again")
    assert said == b"this client was made before a fork: make a new one in this process / 1"


def test_callbacks_cannot_wait_for_themselves(bootstrap):
    said = []

    class Listener:
        async def on_partitions_assigned(self, assigned):
            try:
                consumer.poll()
            except errors.IllegalState as error:
                said.append(str(error))

        async def on_partitions_revoked(self, revoked):
            pass

        on_partitions_lost = on_partitions_revoked

    with sync.Consumer(bootstrap_servers=bootstrap, group_id="cb") as consumer:
        consumer.subscribe(["made2"], listener=Listener())
        while not said:
            consumer.poll(timeout_ms=100)
    assert "would wait for itself" in said[0]


def test_a_plain_listener_may_call_its_consumer(bootstrap):
    """It runs beside the clients' thread: at a rebalance, and at the end."""
    heard = []

    class Listener(RebalanceListener):
        def on_partitions_assigned(self, assigned):
            heard.append(("assigned", len(assigned), consumer.committed(assigned)))
            consumer.seek(TopicPartition("plain", 0), 1)
            with pytest.raises(errors.IllegalState, match="rebalance listener"):
                consumer.poll(0)

        def on_partitions_revoked(self, revoked):
            consumer.commit()
            heard.append(("revoked", len(revoked), {tp: at.offset for tp, at in consumer.committed(revoked).items()}))

    with sync.Producer(bootstrap_servers=bootstrap) as producer:
        for n in range(3):
            producer.send_and_wait("plain", b"%d" % n, partition=0)
    options = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with sync.Consumer(group_id="plain", **options) as consumer:
        consumer.subscribe(["plain"], listener=Listener())
        found = []
        while len(found) < 2:
            found += consumer.poll(timeout_ms=100)
        assert [record.value for record in found] == [b"1", b"2"]
        count = len(consumer.assignment())
    assert heard[0] == ("assigned", count, {})
    what, revoked_count, stored = heard[1]
    assert (what, revoked_count, stored[TopicPartition("plain", 0)]) == ("revoked", count, 3)
    assert len(heard) == 2


@pytest.mark.parametrize("error", [ValueError("mine"), SystemExit("mine"), StopIteration("mine")], ids=repr)
def test_what_a_plain_listener_raises_the_poll_raises(bootstrap, error):
    class Listener(RebalanceListener):
        def on_partitions_assigned(self, assigned):
            raise error

    with sync.Consumer(bootstrap_servers=bootstrap, group_id="raising") as consumer:
        consumer.subscribe(["raising"], listener=Listener())
        with pytest.raises(ValueError if isinstance(error, ValueError) else RuntimeError, match="mine") as told:
            while True:
                consumer.poll(timeout_ms=100)
        assert error in (told.value, told.value.__cause__)
        assert consumer.poll(timeout_ms=0) == []


def interrupt_the_main_thread() -> None:
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


@pytest.fixture
def interrupts():
    """SIGINT raises KeyboardInterrupt, also where a shell started this run in the background, with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
def test_an_interrupted_call_has_ended_when_the_interrupt_is_raised():
    steps = []

    async def slow_to_end() -> None:
        try:
            steps.append("begun")
            asyncio.get_running_loop().call_soon(interrupt_the_main_thread)
            await asyncio.Event().wait()
        finally:
            for _ in range(100):
                await asyncio.sleep(0)
            steps.append("ended")

    with pytest.raises(KeyboardInterrupt):
        loop_thread().call(slow_to_end)
    assert steps == ["begun", "ended"]


def test_what_an_interrupted_call_does_before_it_waits_is_done(monkeypatch):
    steps = []

    async def work() -> None:
        steps.append("begun")
        await asyncio.Event().wait()

    begin = Call.begin

    def interrupted_begin(self) -> None:
        begin(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(Call, "begin", interrupted_begin)
    with pytest.raises(KeyboardInterrupt):
        loop_thread().call(work)
    assert steps == ["begun"]


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("method", ["begin_transaction", "send", "commit_transaction", "abort_transaction"])
def test_an_interrupt_leaves_no_transaction_open(bootstrap, monkeypatch, method):
    """Wherever it comes, and the next transaction begins at once (it waits for the end of the one before)."""
    topic, real, interrupts = f"interrupted-{method}", getattr(AsyncProducer, method), 0

    def interrupted(self, *args):
        nonlocal interrupts
        if interrupts < 20:
            interrupts += 1
            interrupt_the_main_thread()
        return real(self, *args)

    with sync.Producer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
        with monkeypatch.context() as patched:
            patched.setattr(AsyncProducer, method, interrupted)
            for n in range(20):
                with pytest.raises(KeyboardInterrupt), producer.transaction():
                    producer.send(topic, b"%d" % n, partition=0)
                    if method == "abort_transaction":
                        raise ZeroDivisionError
        with producer.transaction():
            producer.send(topic, b"last", partition=0)
    assert interrupts == 20
    values = [record.value for record in read_all(bootstrap, topic)]
    assert values[-1] == b"last"
    if method != "commit_transaction":
        assert values == [b"last"]


@pytest.mark.parametrize(
    "call",
    [
        lambda consumer, _: consumer.poll(timeout_ms=None),
        lambda consumer, _: consumer.subscribe(b"t"),
        lambda consumer, _: consumer.seek("t", 0),
        lambda consumer, _: consumer.commit({("t", "0"): 1}),
        lambda _, admin: admin.describe_topics(["\ud800"]),
        lambda _, admin: admin.list_offsets([("t", 0)]),
        lambda _, admin: admin.create_topics([None]),
    ],
)
def test_wrong_arguments_are_told_here_too(call, bootstrap):
    with (
        sync.Consumer(bootstrap_servers=bootstrap, group_id="wrong") as consumer,
        sync.Admin(bootstrap_servers=bootstrap) as admin,
    ):
        with pytest.raises(errors.InvalidArgument):
            call(consumer, admin)
        assert isinstance(admin.list_topics(), dict)
    with pytest.raises(errors.ConfigurationError):
        sync.Consumer.from_config(None)


@pytest.mark.parametrize("again_after", [0, 4])
def test_the_next_transaction_begins_wherever_one_was_interrupted(bootstrap, again_after):
    """Once, or once more while the first is cleaned up: no record of half a transaction, nothing in the way."""
    topic, told, at = f"interrupted-anywhere-{again_after}", [], 1
    interrupts = Interrupts(["oncelog/sync.py", "oncelog/host/loop_thread.py"])
    with sync.Producer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
        while True:
            with contextlib.suppress(KeyboardInterrupt), interrupts.at(at, at + again_after), producer.transaction():
                for half in "ab":
                    producer.send(topic, f"{half}{at}".encode(), partition=0)
            if not interrupts.struck:
                break
            with producer.transaction():
                producer.send(topic, b"t%d" % at, partition=0)
            told.append(b"t%d" % at)
            at += 1
    assert at > 30
    gc.collect()  # a coroutine that nobody awaits would say so now
    values = [record.value for record in read_all(bootstrap, topic)]
    assert [value for value in values if value.startswith(b"t")] == told
    assert [value[1:] for value in values if value[:1] == b"a"] == [value[1:] for value in values if value[:1] == b"b"]


def test_what_an_interrupt_kept_open_is_aborted_also_behind_transactions_that_ended_well(bootstrap, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with sync.Producer(bootstrap_servers=bootstrap, transactional_id="kept-open") as producer:
        with producer.transaction():
            producer.send("kept-open", b"0", partition=0)
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt), producer.transaction():
            producer.send("kept-open", b"1", partition=0)
            patched.setattr(
                sync.Producer, "_call", interrupted
            )  # before the commit has begun, and before the abort has
        with producer.transaction():
            producer.send("kept-open", b"2", partition=0)
    assert [record.value for record in read_all(bootstrap, "kept-open")] == [b"0", b"2"]


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_of_who_waits_for_a_begun_call_does_not_keep_the_loop_waiting():
    """Struck at each place: with a Condition one interrupt left its lock taken, and the loop could not tell the end, for ever."""
    owner = loop_thread()
    files = ["oncelog/sync.py", "oncelog/host/loop_thread.py", "/threading.py", "concurrent/futures/_base.py"]
    places, at = Interrupts(files), 1
    while True:
        told, may_end = threading.Event(), threading.Event()

        async def work(may_end=may_end) -> None:
            await asyncio.to_thread(may_end.wait)

        begun = sync.Begun(owner.begin(work, lambda _, told=told: told.set()), owner)
        threading.Timer(0.01, may_end.set).start()
        with contextlib.suppress(KeyboardInterrupt), places.at(at):
            begun.wait()
        assert told.wait(30)
        assert begun.wait(30_000)
        assert begun.error() is None
        if not places.struck:
            break
        at += 1
    assert at > 3
