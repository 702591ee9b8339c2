"""Members and brokers that die: each record is acknowledged or given again, none is lost, none comes more often than it may."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from evidence.world.broker import Client, broker_and_client, run

from tests.broker.share.share_world import ACCEPT, RELEASE, Reader, offsets, started

RECORD_COUNT = 60
LIMIT = 10
STORED = 0


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_where_members_and_brokers_die(tmp_path: Any, seed: int) -> None:
    rng = random.Random(seed)
    done: set[int] = set()  # said to be stored
    acknowledged_again: list[int] = []
    given: Counter[int] = Counter()

    async def life(first: bool) -> bool:
        """A broker's life, with members that come and go; whether everything is done."""
        async with broker_and_client(tmp_path) as (broker, client):
            if first:
                topic_id = await started(client, delivery_count_limit=str(LIMIT))
                for _ in range(RECORD_COUNT // 6):
                    await client.produce("t", *"abcdef")
            else:
                topic_id = broker.store.metadata.topics["t"].topic_id
            for number in range(4):
                member = Reader(await Client.connect(broker), topic_id, f"m{number}")
                for _ in range(rng.randint(1, 3)):
                    for begin, end, count in await member.fetch(records_max=rng.randint(1, 30)):
                        assert 1 <= count <= LIMIT
                        for offset in range(begin, end + 1):
                            given[offset] += 1
                            if offset in done:
                                acknowledged_again.append(offset)
                            kind = rng.choice((ACCEPT, ACCEPT, ACCEPT, RELEASE, None))
                            if kind is not None and await member.say((offset, offset, kind)) == [STORED]:
                                done.update([offset] if kind == ACCEPT else [])
                if rng.random() < 0.5:
                    member.client.close()  # it dies; what it has is given to others
            is_done = (await offsets(client))[0][2] == 0
            if rng.random() < 0.7:
                broker._is_started = False
                await broker._abandon()  # so does the broker: what it holds in memory is gone
            return is_done

    async def main() -> None:
        for number in range(40):
            if await life(first=number == 0):
                break
        else:
            raise AssertionError("the group never came to the end")

    run(main())
    assert acknowledged_again == []
    assert set(given) == set(range(RECORD_COUNT)), "every record was given to somebody"
    assert len(done) >= RECORD_COUNT * 0.9, "those that are not done came too often"
