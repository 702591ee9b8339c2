"""What a start knows of each partition, and hands to its recovery."""

from __future__ import annotations

import asyncio
from pathlib import Path

from evidence.world.broker import broker_and_client

from oncelog.log.checkpoint_files import CLEAN_SHUTDOWN


def test_damage_below_the_stored_recovery_point_is_no_torn_tail(tmp_path: Path) -> None:
    """After a crash recovery cuts what is bad above the recovery point. Below it was synced: nothing of it may go."""

    async def written() -> None:
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            for value in ("first", "second", "third"):
                await client.produce("t", value)

    async def third() -> list[str]:
        async with broker_and_client(tmp_path) as (_, client):
            found: list[str] = await client.read("t", offset=2)
            return found

    asyncio.run(written())
    clean = list(tmp_path.rglob(CLEAN_SHUTDOWN))
    assert len(clean) == 1, "the stop was orderly, and the recovery point is stored"
    clean[0].unlink()
    log = next(path for path in tmp_path.rglob("*.log") if path.parent.name == "t-0")
    data = bytearray(log.read_bytes())
    data[data.index(b"second")] ^= 1
    log.write_bytes(data)
    assert asyncio.run(third()) == ["third"]
    assert log.read_bytes() == data
    assert not list(log.parent.glob("*.torn"))
