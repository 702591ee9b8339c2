"""Quotas that may slow a group down: those of its members' client ids, beside how many bytes the members have to read.

Throttling itself is told to the throttled only. What anybody can compute is how long a lag takes at least at the rate allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oncelog.cli.output import error_name
from oncelog.cli.why.looking import Looking
from oncelog.client.admin.clients import Quotas
from oncelog.client.admin.nodes import LogDirectory
from oncelog.core.diagnosis.facts import PartitionFacts, QuotaFacts
from oncelog.errors import KafkaError
from oncelog.types import TopicPartition

RATE = "consumer_byte_rate"


async def quotas_of(looking: Looking, partitions: Sequence[PartitionFacts]) -> tuple[QuotaFacts, ...]:
    """For each client id that has something to read and a quota. Who may not see quotas or sizes is told so in a note."""
    lagging = [each for each in partitions if each.client_id is not None and each.lag]
    if not lagging:
        return ()
    try:
        quotas = await looking.admin.describe_client_quotas()
        limited = {each.client_id for each in lagging if each.client_id and _limit(quotas, each.client_id)}
        if not limited:
            return ()
        sizes = _sizes(await looking.admin.describe_log_dirs())
    except KafkaError as error:
        looking.notes.append(f"quotas and the sizes of partitions could not be read: {error_name(error)}")
        return ()
    found = []
    for client_id in sorted(limited):
        rate = _limit(quotas, client_id)
        assert rate is not None
        by_broker: dict[int, int] = {}
        for each in lagging:
            if each.client_id == client_id:
                by_broker[each.leader_id] = by_broker.get(each.leader_id, 0) + _lag_bytes(each, sizes)
        found.append(QuotaFacts(client_id, rate[0], rate[1], max(by_broker.values())))
    return tuple(found)


def _limit(quotas: Iterable[Quotas], client_id: str) -> tuple[bool, float] | None:
    """Whether it is the default one, and bytes per second; the client id's own wins over the default."""
    found: tuple[bool, float] | None = None
    for each in quotas:
        if RATE not in each.values:
            continue
        if each.entity == {"client-id": client_id}:
            return False, each.values[RATE]
        if each.entity == {"client-id": None}:
            found = True, each.values[RATE]
    return found


def _sizes(directories: Iterable[LogDirectory]) -> dict[TopicPartition, int]:
    sizes: dict[TopicPartition, int] = {}
    for each in directories:
        for where, size in each.partition_sizes.items():
            sizes[where] = max(size, sizes.get(where, 0))
    return sizes


def _lag_bytes(each: PartitionFacts, sizes: dict[TopicPartition, int]) -> int:
    """The lag's part of what the partition keeps, as if all records were of one size."""
    assert each.high_watermark is not None
    assert each.log_start_offset is not None
    kept = max(1, each.high_watermark - each.log_start_offset)
    return sizes.get(each.where, 0) * min(each.lag or 0, kept) // kept
