"""The example of share groups: jobs are done, tried again, or put aside, by several workers."""

from __future__ import annotations

import asyncio
import importlib.util
import pathlib
from collections import Counter
from typing import Any

from evidence.world.broker import broker_and_client, run

from tests.broker.share.share_world import configure, offsets

PATH = pathlib.Path(__file__).parent.parent / "examples" / "share_jobs.py"


def test_jobs_are_done_tried_again_or_put_aside(tmp_path: pathlib.Path) -> None:
    spec = importlib.util.spec_from_file_location("share_jobs", PATH)
    assert spec is not None
    assert spec.loader is not None
    jobs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(jobs)
    attempts: Counter[bytes] = Counter()

    async def do(record: Any) -> None:
        attempts[record.value] += 1
        if record.value == b"poison" or (record.value == b"twice" and record.delivery_count < 2):
            raise ValueError("no")

    async def main() -> None:
        async with broker_and_client(tmp_path, group_share_assignment_interval_ms=0) as (broker, client):
            await client.create("jobs")
            await client.create("jobs-dead")
            await configure(client, auto_offset_reset="earliest")
            await client.produce("jobs", "once", "twice", "poison")
            is_over = False

            async def all_done() -> None:
                nonlocal is_over
                while not is_over:
                    await asyncio.sleep(0.02)
                    found = await offsets(client)
                    is_over = bool(found) and found[0][2] == 0 and sum(attempts.values()) >= 6

            worker = jobs.run(broker.bootstrap_servers, "jobs", "g", do, lambda: is_over)
            await asyncio.gather(worker, all_done())
            assert attempts == {b"once": 1, b"twice": 2, b"poison": 3}
            assert await client.read("jobs-dead") == ["poison"]

    run(main())
