"""Producer ids, handed out of blocks that were reserved durably (KIP-730's scheme).

The shell reserves a block in the cluster's metadata, syncs it, and gives it here; an id is never handed out twice,
since a reused one would make new batches look like duplicates. A block that is lost in a crash is never missed.
"""

from __future__ import annotations

BLOCK_SIZE = 1000


class ProducerIds:
    """The blocks of one broker, in the order in which they came."""

    def __init__(self) -> None:
        self._blocks: list[range] = []
        self._size = BLOCK_SIZE
        self.count = 0  # ids that are left
        self.missed_count = 0  # how often somebody wanted one and there was none

    def take(self) -> int | None:
        """A new producer id; None while no block is there (then COORDINATOR_LOAD_IN_PROGRESS is the answer)."""
        if not self._blocks:
            self.missed_count += 1
            return None
        block = self._blocks[0]
        producer_id = block[0]
        self.count -= 1
        if len(block) == 1:
            self._blocks.pop(0)
        else:
            self._blocks[0] = block[1:]
        return producer_id

    def wants_block(self) -> bool:
        """Whether a block should be reserved now: nine tenths of the last one are used."""
        return self.count * 10 <= self._size

    def give_block(self, first: int, count: int) -> None:
        """A block of `count` ids from `first` is durably ours."""
        assert first >= 0
        assert count > 0
        assert all(first >= block.stop for block in self._blocks), "producer-id blocks never go back"
        self._size = count
        self.count += count
        self._blocks.append(range(first, first + count))
