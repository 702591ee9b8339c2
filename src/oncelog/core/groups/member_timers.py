"""What puts the members of a group out of it unless they come in time."""

from __future__ import annotations

from enum import IntEnum


class MemberTimer(IntEnum):
    """What puts a member out of the group unless it comes in time."""

    SESSION = 0
    REBALANCE = 1  # of the consumer and the streams protocol: giving back
    JOIN = 2  # of the classic protocol: joining a rebalance ...
    SYNC = 3  # ... and asking for its assignment


class MemberTimers:
    """The deadlines of one group's members, in ms of the caller's clock."""

    def __init__(self) -> None:
        self.timers: dict[tuple[str, MemberTimer], int] = {}
        self.revoking_epochs: dict[str, int] = {}  # the member epoch that a REBALANCE timer is about
        self.scheduled_ms: int | None = None  # the coordinator's alarm for this group

    def member_epoch_of(self, member_id: str) -> int | None:
        """The epoch of a member; None where there is no such member."""
        raise NotImplementedError

    def set_timer(self, member_id: str, timer: MemberTimer, deadline_ms: int) -> None:
        """The member has until then."""
        self.timers[member_id, timer] = deadline_ms

    def stop_timer(self, member_id: str, timer: MemberTimer) -> None:
        """The member has come."""
        self.timers.pop((member_id, timer), None)

    def forget_timers(self, member_id: str) -> None:
        """The member is gone."""
        for timer in MemberTimer:
            self.stop_timer(member_id, timer)
        self.revoking_epochs.pop(member_id, None)

    def next_deadline(self) -> int | None:
        """When something of this group is due."""
        return min(self.timers.values(), default=None)

    def take_overdue(self, now_ms: int) -> list[str]:
        """The members whose time is over; their timers have rung. A member that has left the epoch in which it had to
        give back is not meant any more."""
        overdue: dict[str, None] = {}
        for (member_id, timer), deadline_ms in list(self.timers.items()):
            if deadline_ms > now_ms:
                continue
            self.stop_timer(member_id, timer)
            member_epoch = self.member_epoch_of(member_id)
            if member_epoch is None:
                continue
            if timer is MemberTimer.REBALANCE and self.revoking_epochs.get(member_id) != member_epoch:
                continue
            overdue[member_id] = None
        return list(overdue)
