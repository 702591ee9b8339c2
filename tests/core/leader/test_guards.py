"""Guards: who shares one, what voids it."""

from __future__ import annotations

from oncelog.core.leader.guards import VERIFICATION_COUNT_MAX, VERIFICATION_MS_MAX, Guard, Verifications


def start(
    verifications: Verifications,
    producer_epoch: int = 0,
    *,
    producer_id: int = 1,
    transactional_id: str = "t",
    base_sequence: int = 0,
    implicit: bool = True,
    now_ms: int = 0,
) -> Guard:
    return verifications.start(
        producer_id,
        producer_epoch,
        transactional_id,
        base_sequence=base_sequence,
        supports_implicit_add=implicit,
        now_ms=now_ms,
    )


def test_equal_questions_share_a_guard_and_the_lowest_sequence():
    verifications = Verifications()
    guard = start(verifications, base_sequence=4)
    assert start(verifications, base_sequence=2) is guard
    assert start(verifications, base_sequence=9) is guard
    entry = verifications.entry(guard)
    assert entry is not None
    assert entry.lowest_sequence == 2


def test_other_epochs_and_ids_have_guards_of_their_own():
    verifications = Verifications()
    guards = [
        start(verifications),
        start(verifications, 1),
        start(verifications, transactional_id="u"),
        start(verifications, producer_id=2),
    ]
    assert len({id(guard) for guard in guards}) == 4
    assert all(verifications.entry(guard) is not None for guard in guards)
    assert verifications.entry(Guard(1, 0, "t")) is None  # equal is not the same


def test_a_batch_ends_the_verifications_up_to_its_epoch():
    verifications = Verifications()
    older, same, newer = (start(verifications, producer_epoch) for producer_epoch in (0, 1, 2))
    verifications.appended(1, 1)
    assert [verifications.entry(guard) is None for guard in (older, same, newer)] == [True, True, False]


def test_which_markers_void_which_guards():
    for ends_previous, implicit, is_kept in [
        (True, True, True),
        (True, False, False),
        (False, True, False),
        (False, False, False),
    ]:
        verifications = Verifications()
        older, same, newer = (start(verifications, producer_epoch, implicit=implicit) for producer_epoch in (0, 1, 2))
        other = start(verifications, 0, producer_id=2)
        verifications.marker_appended(1, 1, ends_previous=ends_previous)
        assert verifications.entry(older) is None
        assert (verifications.entry(same) is not None) is is_kept
        assert verifications.entry(newer) is not None
        assert verifications.entry(other) is not None


def test_forgotten_questions_expire():
    verifications = Verifications()
    start(verifications, now_ms=10)
    young = start(verifications, producer_id=2, now_ms=11)
    assert verifications.expire(10 + VERIFICATION_MS_MAX) == 1
    assert len(verifications) == 1
    assert verifications.entry(young) is not None


def test_a_flood_of_questions_voids_the_oldest():
    verifications = Verifications()
    oldest = start(verifications, producer_id=0)
    second = start(verifications, producer_id=1)
    for producer_id in range(2, VERIFICATION_COUNT_MAX + 1):
        start(verifications, producer_id=producer_id)
    assert len(verifications) == VERIFICATION_COUNT_MAX
    assert verifications.entry(oldest) is None
    assert verifications.entry(second) is not None
    verifications.appended(1, 0)
    assert len(verifications) == VERIFICATION_COUNT_MAX - 1
