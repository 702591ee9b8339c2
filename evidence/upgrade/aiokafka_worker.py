"""Transactions of aiokafka, which speaks version 0 of the transaction APIs: `python -m evidence.upgrade.aiokafka_worker`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pathlib
import signal
import sys
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from evidence.crash.workers import Worker, payload, steps_of

KIND = "aiokafka"
log = logging.getLogger("upgrade")


async def work(worker: Worker) -> None:
    """Until SIGTERM; one transaction in five is aborted. A producer that failed is followed by another one."""
    while not worker.is_stopped:
        producer = AIOKafkaProducer(bootstrap_servers=worker.bootstrap, transactional_id="upgrade-aiokafka")
        await producer.start()
        try:
            while not worker.is_stopped:
                await one_transaction(worker, producer, commits=worker.random.random() < 0.8)
        except KafkaError as error:
            log.error("aiokafka: producer is over: %s: %s", type(error).__name__, error)
        finally:
            with contextlib.suppress(KafkaError):
                await producer.stop()


async def one_transaction(worker: Worker, producer: Any, *, commits: bool) -> None:
    records = worker.records(("crash.txn",))
    worker.journal.write("invoke", steps_of(records))
    offsets: list[int | None] = [None] * len(records)
    outcome = "info"
    try:
        await producer.begin_transaction()
        for index, (topic, partition, value) in enumerate(records):
            sent = await producer.send_and_wait(topic, payload(worker, value), partition=partition)
            offsets[index] = sent.offset
        await (producer.commit_transaction() if commits else producer.abort_transaction())
        outcome = "ok" if commits else "fail"
    finally:
        worker.journal.write(outcome, steps_of(records, offsets))


def main() -> None:
    number, bootstrap, folder = sys.argv[1:]
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    worker = Worker(KIND, int(number), bootstrap, pathlib.Path(folder))

    def stop(*_: object) -> None:
        worker.is_stopped = True

    signal.signal(signal.SIGTERM, stop)
    asyncio.run(work(worker))
    worker.journal.close()


if __name__ == "__main__":
    main()
