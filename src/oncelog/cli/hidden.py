"""Whether nothing was found because one may see nothing: brokers leave out of their lists what one may not see, and say nothing
of it. Asked by a name that nobody has: who may see all is told that it does not exist, who may not is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from oncelog.cli.command import Settings
from oncelog.cli.output import error_name
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.hanging import NOT_ALL_IDS, PROBE_ID
from oncelog.client.admin.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from oncelog.errors import (
    GroupAuthorization,
    GroupIdNotFound,
    KafkaError,
    TopicAuthorization,
    TransactionalIdAuthorization,
    TransactionalIdNotFound,
    UnknownTopicOrPartition,
)

OWNERS = "whose an open transaction is"
TOPICS, GROUPS, TRANSACTIONAL_IDS = "topics", "groups", "transactional ids"
PROBE_TOPIC, PROBE_GROUP = "oncelog-may-i-see-any-topic", "oncelog-may-i-see-any-group"
_REFUSED = (TopicAuthorization, GroupAuthorization, TransactionalIdAuthorization)
_ABSENT = (UnknownTopicOrPartition, GroupIdNotFound, TransactionalIdNotFound)


async def why_not_all(admin: Admin, kind: str, probe_id: str = PROBE_ID) -> str:
    """Why there may be more of that kind than is shown; "" where all of it may be seen. `probe_id`: a transactional id that
    nobody has, of those that matter."""
    try:
        if kind == TOPICS:
            await admin.describe_topics([PROBE_TOPIC])
        elif kind == GROUPS and await _may_exist(admin, OFFSETS_TOPIC):
            await admin.describe_groups([PROBE_GROUP])
        elif kind == TRANSACTIONAL_IDS and await _may_exist(admin, TRANSACTIONS_TOPIC):
            await admin.describe_transactions([probe_id])
    except _REFUSED:
        return f"you may not see all {kind}"
    except _ABSENT:
        return ""
    except KafkaError as error:
        return f"whether you may see all {kind} could not be asked: {error_name(error)}"
    return ""


async def _may_exist(admin: Admin, topic: str) -> bool:
    """Whether anybody has needed a coordinator: to ask for one would make the topic."""
    try:
        await admin.describe_topics([topic])
    except UnknownTopicOrPartition:
        return False
    except TopicAuthorization:
        return True
    return True


async def nothing_seen(
    admin: Admin, settings: Settings, kind: str, everything: Callable[[], Awaitable[object]] | None = None
) -> bool:
    """Nothing of that kind was found: whether there may be some all the same; then stderr says so. `everything` lists it without
    a filter: who may see some of it may look for what is not there."""
    reason = await why_not_all(admin, kind)
    if reason and everything is not None and await everything():
        return False
    if reason:
        settings.out.note(f"{reason}: there may be some that are not shown")
    return bool(reason)


def not_answered(hidden: Iterable[str]) -> list[str]:
    """Of the reasons why an owner may not be seen those that are no missing right: somebody did not answer."""
    return [each for each in hidden if each != NOT_ALL_IDS]


def none_that_may_be_seen(none: str, is_hidden: bool) -> str:
    """What stands for no rows: an all-clear only for who may see them."""
    return f"{none} that you may see" if is_hidden else none
