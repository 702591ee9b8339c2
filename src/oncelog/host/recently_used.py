"""What a process remembers of so many things and no more, whichever of its threads asks."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class RecentlyUsed(Generic[T]):
    """At most `size_max` entries; the one unused for longest goes. Keys are whatever can be hashed."""

    def __init__(self, size_max: int) -> None:
        self._size_max, self._entries = size_max, OrderedDict[Any, T]()
        self._lock = threading.Lock()

    def get(self, key: Any) -> T | None:
        """The value, which counts as used now; None where there is none (any more)."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key]

    def put(self, key: Any, value: T) -> T | None:
        """Remember it as used now; the value that was there."""
        with self._lock:
            before = self._entries.pop(key, None)
            self._entries[key] = value
            while len(self._entries) > self._size_max:
                self._entries.popitem(last=False)
            return before

    def forget(self, key: Any) -> None:
        """Nothing where there is none."""
        with self._lock:
            self._entries.pop(key, None)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)
