"""A queue of jobs that many workers share (KIP-932): done, tried again later, or put aside.

`python share_jobs.py BROKER TOPIC GROUP`, as often as you like. A job that fails is released, and somebody gets it again;
one that failed three times goes to TOPIC-dead and is rejected.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable

from oncelog import Producer, ShareConsumer, ShareRecord

ATTEMPTS_MAX = 3
Work = Callable[[ShareRecord], Awaitable[None]]


async def work(record: ShareRecord) -> None:
    print(f"{record.offset}: {record.value!r}, attempt {record.delivery_count}")


async def run(servers: str, topic: str, group_id: str, do: Work, is_over: Callable[[], bool] = bool) -> None:
    """Do jobs until `is_over`."""
    async with (
        Producer(bootstrap_servers=servers) as producer,
        ShareConsumer(
            topic, group_id=group_id, bootstrap_servers=servers, share_acknowledgement_mode="explicit"
        ) as consumer,
    ):
        while not is_over():
            for record in await consumer.poll():
                try:
                    await do(record)
                except Exception as error:  # noqa: BLE001 - whatever a job raises is its failure
                    if record.delivery_count < ATTEMPTS_MAX:
                        consumer.acknowledge(record, "release")
                        continue
                    # First kept, then rejected: a death in between does it again, and loses nothing.
                    headers = [("error", repr(error).encode())]
                    await producer.send_and_wait(f"{topic}-dead", record.value, key=record.key, headers=headers)
                    consumer.acknowledge(record, "reject")
                else:
                    consumer.acknowledge(record)
            for partition, refused in (await consumer.commit()).items():
                print(f"{partition}: {refused}; those jobs come again", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit("usage: python examples/share_jobs.py BOOTSTRAP_SERVERS TOPIC GROUP")
    asyncio.run(run(*sys.argv[1:4], do=work))
