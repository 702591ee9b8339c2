"""The member's side of a share session."""

from __future__ import annotations

from oncelog.core.sharing.session import EPOCH_MAX, SessionState, SessionStep

A, B, C = (b"t" * 16, 0), (b"t" * 16, 1), (b"u" * 16, 0)


def test_partitions_are_named_once_and_forgotten_once():
    state = SessionState()
    assert not state.is_open
    assert state.next_fetch([A, B]) == SessionStep(0, (A, B), ())
    state.answered()
    assert state.is_open
    assert state.next_fetch([A, B]) == SessionStep(1, (), ())
    state.answered()
    assert state.next_fetch([C, B]) == SessionStep(2, (C,), (A,))
    state.lost()
    assert state.next_fetch([B]) == SessionStep(0, (B,), ())
    state.session_epoch = EPOCH_MAX
    state.answered()
    assert state.session_epoch == 1
