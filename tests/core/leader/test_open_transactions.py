"""The first undecided offset."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.leader.open_transactions import OpenTransactions


def test_a_transaction_is_unstable_until_the_high_watermark_has_passed_its_marker():
    transactions = OpenTransactions()
    transactions.opened(3)
    assert transactions.completed(3, 7) == 8
    assert len(transactions) == 0
    transactions.synced(7)  # the marker itself, at 7, is not synced
    assert transactions.first_unstable_offset() == 3
    transactions.synced(8)
    assert transactions.first_unstable_offset() is None


def test_index_entry_names_the_next_open_transaction_even_if_a_completed_one_is_not_synced():
    transactions = OpenTransactions([5, 2])
    assert transactions.first_unstable_offset() == 2
    assert transactions.completed(2, 9) == 5
    assert transactions.completed(5, 10) == 11
    assert transactions.first_unstable_offset() == 2


@given(st.lists(st.integers(0, 3), max_size=40))
def test_against_a_list_of_all_transactions(steps: list[int]):
    """Steps: 0, 1 open one, 2 ends the youngest, 3 syncs all but the last offset."""
    transactions, known, end_offset, high_watermark = OpenTransactions(), [], 0, 0
    for step in steps:
        if step < 2:
            transactions.opened(end_offset)
            known.append([end_offset, None])
        elif step == 2:
            open_ones = [transaction for transaction in known if transaction[1] is None]
            if not open_ones:
                continue
            youngest = open_ones[-1]
            youngest[1] = end_offset
            still_open = [first for first, marker in known if marker is None]
            assert transactions.completed(youngest[0], end_offset) == min(still_open, default=end_offset + 1)
        else:
            high_watermark = max(high_watermark, end_offset - 1)
            transactions.synced(high_watermark)
            continue
        end_offset += 1
        unstable = [first for first, marker in known if marker is None or marker >= high_watermark]
        assert transactions.first_unstable_offset() == min(unstable, default=None)
