"""Who asks, and what it was denied."""

from __future__ import annotations

from oncelog.core.access.authorizer import Authorizer, Identity
from oncelog.core.access.passage import DENIALS_MAX, Caller
from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.wire.access_rules import Operation, ResourceType


def caller(*, super_users=()):
    authorizer = Authorizer({}, super_users=super_users)
    return Caller(authorizer, Identity("User:me"), ClusterMetadata(), may_create=True)


def test_who_may_all_has_no_denials():
    me = caller(super_users=["User:me"])
    assert me.may_on_topic(Operation.READ, "a")
    assert me.denials is None


def test_denials_are_kept_once_each_and_only_the_first_by_name():
    me = caller()
    for name in [str(number) for number in range(DENIALS_MAX + 3)]:
        assert not me.may_on_topic(Operation.READ, name)
    assert not me.may_on_topic(Operation.READ, "0")
    assert me.denials is not None
    assert list(me.denials.first) == [(Operation.READ, ResourceType.TOPIC, str(each)) for each in range(DENIALS_MAX)]
    assert me.denials.more_count == 3
