"""Reserves blocks of producer ids in the cluster's metadata, durably, before an id of theirs is handed out."""

from __future__ import annotations

from oncelog.broker.metadata.metadata_store import MetadataStore
from oncelog.core.transactions.producer_ids import BLOCK_SIZE, ProducerIds
from oncelog.wire.log_records.cluster_metadata import ProducerIdsRecord


class ProducerIdBlocks:
    """Fills `ids`, of which every transaction coordinator of this node takes."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.ids = ProducerIds()

    async def ensure(self) -> None:
        """Reserve another block if nine tenths of the last one are used. Raises StorageError."""
        if not self.ids.wants_block():
            return
        async with self._store.changing() as metadata:
            if self.ids.wants_block():
                first = metadata.next_producer_id
                await self._store.append([ProducerIdsRecord(next_producer_id=first + BLOCK_SIZE)])
                self.ids.give_block(first, BLOCK_SIZE)
