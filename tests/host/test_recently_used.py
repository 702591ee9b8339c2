"""Entries in the order of their use, bounded, from several threads."""

from __future__ import annotations

import threading

from oncelog.host.recently_used import RecentlyUsed


def test_it_keeps_what_was_used_last() -> None:
    used: RecentlyUsed[int] = RecentlyUsed(2)
    assert used.put("a", 1) is None
    used.put("b", 2)
    assert used.get("a") == 1
    used.put("c", 3)
    assert (used.get("a"), used.get("b"), used.get("c"), len(used)) == (1, None, 3, 2)


def test_what_is_put_again_counts_as_used_and_gives_what_was_there() -> None:
    used: RecentlyUsed[int] = RecentlyUsed(2)
    used.put("a", 1)
    used.put("b", 2)
    assert used.put("a", 3) == 1
    used.put("c", 4)
    assert (used.get("a"), used.get("b"), used.get("c")) == (3, None, 4)


def test_what_is_forgotten_is_gone() -> None:
    used: RecentlyUsed[int] = RecentlyUsed(2)
    used.put("a", 1)
    used.forget("a")
    used.forget("never")
    assert used.get("a") is None
    used.put("b", 2)
    used.clear()
    assert len(used) == 0


def test_threads_find_it_whole() -> None:
    used: RecentlyUsed[int] = RecentlyUsed(3)
    failed: list[BaseException] = []

    def work(first: int) -> None:
        try:
            for number in range(2000):
                used.put((first + number) % 7, number)
                used.get(number % 7)
                used.forget((first * number) % 7)
        except (KeyError, RuntimeError) as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(used) <= 3
