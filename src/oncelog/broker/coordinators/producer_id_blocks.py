"""Reserves blocks of producer ids in the cluster's metadata, durably, before an id of theirs is handed out.

The next block is reserved beside the requests while ids are left (Kafka prefetches at the same point); only who finds none
left waits. Where the cluster's metadata takes nothing more, the ids that are left are handed out, and after them a request
for one is refused until a restart.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from oncelog.broker.metadata.metadata_store import ControllerAway, MetadataStore
from oncelog.core.metadata.refusal import ChangeTimedOut
from oncelog.core.transactions.producer_ids import BLOCK_SIZE, ProducerIds
from oncelog.errors import StorageError
from oncelog.host.tasks import Tasks
from oncelog.wire.log_records.cluster_metadata import ProducerIdsRecord

if TYPE_CHECKING:
    from oncelog.broker.metadata.followed_metadata import FollowedMetadata

_log = logging.getLogger("oncelog.producer-ids")
AWAY_PAUSE_S = 0.2  # before a block is asked for again
NEVER_HANDED_OUT = 1 << 62  # from here on: whoever made such a one up must not use up those that are left


class ProducerIdBlocks:
    """Fills `ids`, of which every transaction coordinator of this node takes."""

    def __init__(self, store: MetadataStore | FollowedMetadata, tasks: Tasks) -> None:
        self._store = store
        self._tasks = tasks
        self._reserving: asyncio.Task[None] | None = None
        self.ids = ProducerIds()
        self._first_unknown = 0  # no log and no coordinator of this node knows an id from here on
        self.has_failed = False  # no block comes any more
        self._is_keeper_away = False  # or others keep it busy, when a block was asked for last

    @property
    def may_come(self) -> bool:
        """Whether it is worth waiting for a block."""
        return not self.has_failed and not self._is_keeper_away

    def pass_over(self, highest_known: int) -> None:
        """Hand out no id that a log or a coordinator here knows: what its new owner wrote would be taken for what was written
        before, acknowledged and lost. They know none that was not handed out, unless the metadata is older than they are (its
        last change was damaged, or an old copy was put back)."""
        self._first_unknown = min(highest_known + 1, NEVER_HANDED_OUT)
        if self._first_unknown > self._store.metadata.next_producer_id:
            _log.warning(
                "producer ids up to %d are known to logs, and the metadata says that none from %d on was handed out: it is older "
                "than they are, or a client made one up; these are passed over",
                self._first_unknown - 1,
                self._store.metadata.next_producer_id,
            )
            self.reserve_in_time()

    async def ensure(self) -> None:
        """Wait until an id is there to be taken in this very step, or none is to be expected (`may_come`): then the next one is
        asked for beside the requests, which are refused until it is there."""
        self.reserve_in_time()
        while not self.ids.count and self._reserving is not None and self.may_come:
            # Not awaited itself: a client that goes away must not end what others wait for.
            await asyncio.wait((self._reserving,))
            self.reserve_in_time()

    def reserve_in_time(self) -> None:
        """Begin to reserve another block where nine tenths of the last one are used. Waits for nothing."""
        if self._reserving is not None and self._reserving.done():
            self._reserving = None
        if self._reserving is None and not self.has_failed and self.ids.wants_block():
            self._reserving = self._tasks.start(self._reserve(), name="producer-ids")

    async def _reserve(self) -> None:
        try:
            await self._ask_for_block()
        except (ControllerAway, ChangeTimedOut) as error:
            if not self._is_keeper_away:
                _log.warning("no producer ids could be reserved, %d are left: %s", self.ids.count, error)
            self._is_keeper_away = True
            await asyncio.sleep(AWAY_PAUSE_S)
        except StorageError as error:
            self.has_failed = True
            _log.critical("no producer ids can be reserved until a restart; %d are left: %s", self.ids.count, error)
        else:
            self._is_keeper_away = False

    async def _ask_for_block(self) -> None:
        async with self._store.changing() as metadata:
            first, count = max(metadata.next_producer_id, self._first_unknown), BLOCK_SIZE
            await self._store.append([ProducerIdsRecord(next_producer_id=first + count)])
            self.ids.give_block(first, count)
