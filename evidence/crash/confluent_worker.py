"""Transactions of librdkafka, which speaks the protocol before KIP-890 part 2: AddPartitionsToTxn, then EndTxn."""

from __future__ import annotations

import contextlib
import logging

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from evidence.crash.workers import Unknown, Worker, payload, steps_of

log = logging.getLogger("crash")


def work(worker: Worker) -> None:
    """Until SIGTERM; one transaction in five is aborted."""
    while not worker.is_stopped:
        producer = Producer(
            {
                "bootstrap.servers": worker.bootstrap,
                "transactional.id": "crash-confluent",
                "linger.ms": 0,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "log_level": 2,
            }
        )
        try:
            again(lambda producer=producer: producer.init_transactions(30))
            while not worker.is_stopped:
                one_transaction(worker, producer, commits=worker.random.random() < 0.8)
        except Unknown:
            continue


def again(act) -> None:
    """`act` until it does not only time out. Raises KafkaException."""
    while True:
        try:
            act()
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def one_transaction(worker: Worker, producer: Producer, *, commits: bool) -> None:
    records = worker.records(("crash.txn",))
    worker.journal.write("invoke", steps_of(records))
    offsets: list[int | None] = [None] * len(records)

    def delivered(index: int, error: KafkaError | None, message: Message) -> None:
        if error is None and message.offset() >= 0:
            offsets[index] = message.offset()

    outcome = "info"
    try:
        producer.begin_transaction()
        try:
            for index, (topic, partition, value) in enumerate(records):
                producer.produce(
                    topic,
                    payload(worker, value),
                    partition=partition,
                    on_delivery=lambda error, message, index=index: delivered(index, error, message),
                )
            if commits:
                again(lambda: producer.commit_transaction(30))
                outcome = "ok"
            else:
                producer.flush(30)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            log.warning("confluent: aborting after %s", error)
        if outcome != "ok":
            again(lambda: producer.abort_transaction(30))
            outcome = "fail"
    except KafkaException as error:
        log.error("confluent: producer is over: %s", error)
        raise Unknown from error
    finally:
        with contextlib.suppress(KafkaException):  # a producer that is over says so again
            producer.poll(0)
        worker.journal.write(outcome, steps_of(records, offsets))
