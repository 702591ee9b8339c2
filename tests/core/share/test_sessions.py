"""Share sessions: epochs, forgotten partitions, connections, bounds."""

from __future__ import annotations

from oncelog.core.share.sessions import FINAL_EPOCH, MemberKey, RefusedSession, ShareSession, ShareSessions, Wanted
from oncelog.errors import ErrorCode

E = ErrorCode
M, N = MemberKey("g", "m"), MemberKey("g", "n")
P0, P1, P2 = (Wanted(b"t" * 16, index) for index in range(3))


def sessions(count_max=10, partitions_max=10):
    return ShareSessions(lambda: count_max, lambda: partitions_max)


def code(outcome):
    return outcome.error_code if isinstance(outcome, RefusedSession) else E.NONE


def test_requests_come_in_the_order_of_their_epochs():
    found = sessions()
    assert code(found.follow(M, 1)) is E.SHARE_SESSION_NOT_FOUND
    opened = found.open(M, 7, [P0, P1])
    assert isinstance(opened, ShareSession)
    assert found.follow(M, 1, [P2], [P0]) is opened
    assert list(opened.partitions) == [P1, P2]
    assert code(found.follow(M, 1)) is E.INVALID_SHARE_SESSION_EPOCH
    assert found.follow(M, 2) is opened
    opened.session_epoch = (1 << 31) - 1
    found.follow(M, (1 << 31) - 1)
    assert opened.session_epoch == 1, "as KIP-227's, they begin again at 1"
    assert found.close(M) is opened
    assert code(found.close(M)) is E.SHARE_SESSION_NOT_FOUND
    assert FINAL_EPOCH == -1


def test_who_had_records_comes_last_next_time():
    opened = sessions().open(M, 7, [P0, P1])
    assert isinstance(opened, ShareSession)
    opened.answered(P0)
    opened.answered(P2)
    assert list(opened.partitions) == [P1, P0]


def test_sessions_end_with_their_connection():
    found = sessions()
    first = found.open(M, 7, [P0])
    found.open(N, 7, [])
    second = found.open(M, 8, [P1])
    assert first is not second
    assert [each.key for each in found.connection_lost(7)] == [N], "the member has come back by another connection"
    assert found.connection_lost(8) == [second]
    assert found.connection_lost(8) == []
    assert len(found) == 0


def test_there_are_bounds():
    found = sessions(count_max=1, partitions_max=2)
    found.open(M, 1, [P0])
    assert code(found.open(N, 1, [])) is E.SHARE_SESSION_LIMIT_REACHED
    assert code(found.follow(M, 1, [P1, P2])) is E.SHARE_SESSION_LIMIT_REACHED
    assert code(found.follow(M, 1, [P1])) is E.NONE
    assert code(sessions(partitions_max=1).open(M, 1, [P0, P1])) is E.SHARE_SESSION_LIMIT_REACHED
