"""An application that is cancelled, stopped and failed again and again: each message takes effect once.

Processes that are killed, with this application among other members of the group: `make process`.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter

from faststream import FastStream

from oncelog.faststream import OncelogMessage, OncelogResponse
from tests.faststream.world import fill, new_broker, position, read, run, until

LIVES = 40 if os.environ.get("ONCELOG_LONG", "0") != "0" else 4
COUNT = 75 * LIVES
SOON = {"heartbeat_interval_ms": 50, "session_timeout_ms": 2000}  # others hear of it, and take over


def new_app(bootstrap, chance):
    """It publishes in three ways, is slow now and then, and fails now and then behind half of its work."""
    broker = new_broker(bootstrap, graceful_timeout=5)

    @broker.subscriber("in", group_id="g", max_workers=3, transform_backoff_ms=1, transaction_interval_ms=10, **SOON)
    @broker.publisher("out")
    async def handle(number: int, message: OncelogMessage) -> OncelogResponse:
        await broker.publish(number, "side", key=message.raw_message.key)
        await asyncio.sleep(chance.random() * 0.004)
        if chance.random() < 0.03:
            raise OSError("away")
        await broker.publish_batch(number, number, topic="twice")
        return OncelogResponse(number, key=message.raw_message.key)

    return FastStream(broker, logger=None)


async def live(app, chance):
    """One life: cancelled, or ended as by a signal."""
    running = asyncio.create_task(app.run(sleep_time=0.01))
    await asyncio.sleep(0.05 + chance.random() * 0.2)
    if chance.random() < 0.5:
        app.exit()
        await running
        return
    (subscriber,) = app.broker.subscribers
    for task in (running, subscriber._work):  # the end of a loop cancels both
        if task is not None:
            task.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await until(lambda: subscriber._work is None)
    await app.broker.stop()


async def judged(bootstrap, seed):
    """The application's lives, one overlapped by another, and what is left of them."""
    chance = random.Random(seed)
    await fill(bootstrap, *[b"%d" % number for number in range(COUNT)], partitions=4)
    steady = new_app(bootstrap, chance)
    await steady.start()
    for _ in range(LIVES):
        await live(new_app(bootstrap, chance), chance)

    async def is_done():
        return await position(bootstrap) >= COUNT

    await until(is_done)
    await steady.stop()
    for topic, times in (("out", 1), ("side", 1), ("twice", 2)):
        found = Counter(int(record.value) for record in await read(bootstrap, topic, COUNT * times))
        assert found == dict.fromkeys(range(COUNT), times), (seed, topic)


def test_each_message_takes_effect_once():
    run(lambda bootstrap: judged(bootstrap, random.randrange(10**6)), wait_s=15 * LIVES)
