"""Quotas that may slow a group down: those of its members' client ids, beside how many bytes the members have to read; and
that may slow a topic's readers down, of whom nothing is known.

Throttling itself is told to the throttled only. What anybody can compute is how long a lag takes at least at the rate allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from oncelog.cli.command import Settings
from oncelog.cli.durations import duration_text
from oncelog.cli.output import error_name
from oncelog.cli.quota_text import number_text
from oncelog.cli.why.looking import Looking
from oncelog.cli.why.words import quota_entity
from oncelog.client.admin.nodes import LogDirectory
from oncelog.core.diagnosis.causes import QUOTA_CATCH_UP_MS
from oncelog.core.diagnosis.facts import PartitionFacts, QuotaFacts
from oncelog.core.diagnosis.quotas import ReadingQuota, quota_of, reading_quotas, slowest_of_users
from oncelog.errors import KafkaError
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition

READ_AT_ONCE_MS = 10_000  # so much of a quota may be read at once: for less nobody waits


@dataclass
class QuotaReading:
    """Quotas and sizes, asked for once however many groups are looked at. Who may not see them is told so in a note."""

    looking: Looking
    _quotas: list[ReadingQuota] | None = None
    _sizes: dict[TopicPartition, int] | None = None
    _failed: bool = field(default=False)

    async def quotas_of(self, partitions: Sequence[PartitionFacts]) -> tuple[QuotaFacts, ...]:
        """For each client id that has something to read and a quota."""
        lagging = [each for each in partitions if each.client_id and each.lag]
        if not lagging or not await self._read_for({each.client_id for each in lagging if each.client_id}):
            return ()
        found = []
        for client_id in sorted({each.client_id for each in lagging if each.client_id}):
            quota = quota_of(self._quotas or (), client_id)
            if quota is not None:
                lag_bytes = self._lag_bytes(each for each in lagging if each.client_id == client_id)
                found.append(QuotaFacts(client_id, quota.entity, quota.bytes_per_second, lag_bytes))
        return tuple(found)

    def note_of_users(self, settings: Settings, partitions: Sequence[PartitionFacts]) -> str | None:
        """Where a quota of a named user would be too little for the lag: whether its readers are that user is not known."""
        lagging = [each for each in partitions if each.client_id and each.lag]
        quota = slowest_of_users(self._quotas or (), [each.client_id for each in lagging if each.client_id])
        if quota is None or not lagging:
            return None
        fact = QuotaFacts("", quota.entity, quota.bytes_per_second, self._lag_bytes(lagging))
        if fact.catch_up_ms <= QUOTA_CATCH_UP_MS:
            return None
        takes = f"takes {duration_text(fact.catch_up_ms)} or longer" if quota.bytes_per_second > 0 else "is for ever"
        user = dict(quota.entity)["user"]
        return (
            f"if its members are user {user!r}, that one's quota of {number_text(quota.bytes_per_second)} bytes a second "
            f"holds them up: "
            f"their lag {takes}: {settings.repair('quotas', 'list', *quota_entity(quota.entity))}"
        )

    async def note_of_topic(self, settings: Settings, partitions: Sequence[PartitionFacts]) -> str | None:
        """The slowest of those who would be made to wait while they read all of a topic: who reads it is not known."""
        if not partitions or not await self._read_for(None):
            return None
        by_broker: dict[int, int] = {}
        for each in partitions:
            by_broker[each.leader_id] = by_broker.get(each.leader_id, 0) + (self._sizes or {}).get(each.where, 0)
        size = max(by_broker.values())
        facts = [QuotaFacts("", each.entity, each.bytes_per_second, size) for each in self._quotas or ()]
        slow = sorted(
            (each for each in facts if each.catch_up_ms > READ_AT_ONCE_MS), key=lambda each: each.bytes_per_second
        )
        if not slow:
            return None
        first, *others = slow
        who = " and ".join(f"{kind} {'of any name' if name is None else repr(name)}" for kind, name in first.entity)
        takes = f"takes {duration_text(first.catch_up_ms)} or longer" if first.bytes_per_second > 0 else "is for ever"
        more = f" (and {len(others)} more, with higher ones)" if others else ""
        entity = () if others else quota_entity(first.entity)
        return (
            f"readers with {who}{more} may be made to wait: their quota is {number_text(first.bytes_per_second)} bytes a second, "
            f"and to "
            f"read all of it {takes}: {settings.repair('quotas', 'list', *entity)}"
        )

    async def _read_for(self, client_ids: Iterable[str] | None) -> bool:
        """Whether there is a quota that may hold for one of them (None: for anybody); then the sizes are known, too."""
        if self._failed:
            return False
        try:
            if self._quotas is None:
                told = await self.looking.admin.describe_client_quotas()
                self._quotas = reading_quotas((each.entity, each.values) for each in told)
            if not self._quotas:
                return False
            if client_ids is not None and not self._may_hold_for(client_ids):
                return False
            if self._sizes is None:
                self._sizes = _sizes(await self.looking.admin.describe_log_dirs())
        except KafkaError as error:
            self._failed = True
            self.looking.notes.append(f"quotas and the sizes of partitions could not be read: {error_name(error)}")
            return False
        return True

    def _may_hold_for(self, client_ids: Iterable[str]) -> bool:
        quotas = self._quotas or ()
        return any(quota_of(quotas, each) for each in client_ids) or slowest_of_users(quotas, client_ids) is not None

    def _lag_bytes(self, lagging: Iterable[PartitionFacts]) -> int:
        """Of the broker that has the most of it."""
        by_broker: dict[int, int] = {}
        for each in lagging:
            by_broker[each.leader_id] = by_broker.get(each.leader_id, 0) + _lag_bytes(each, self._sizes or {})
        return max(by_broker.values(), default=0)


def _sizes(directories: Iterable[LogDirectory]) -> dict[TopicPartition, int]:
    sizes: dict[TopicPartition, int] = {}
    for each in directories:
        for where, size in each.partition_sizes.items():
            sizes[where] = max(size, sizes.get(where, 0))
    return sizes


def _lag_bytes(each: PartitionFacts, sizes: Mapping[TopicPartition, int]) -> int:
    """The lag's part of what the partition keeps, as if all records were of one size."""
    assert each.high_watermark is not None
    assert each.log_start_offset is not None
    kept = max(1, each.high_watermark - each.log_start_offset)
    return sizes.get(each.where, 0) * min(each.lag or 0, kept) // kept
