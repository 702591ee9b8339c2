"""Partitions that a command could not look at, or only in part: named on stderr, with why. The others are shown all the same."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from oncelog.cli.command import Settings
from oncelog.cli.output import error_name
from oncelog.client.admin.admin import Admin
from oncelog.client.cluster.view import TopicView, offline_partitions
from oncelog.errors import KafkaError
from oncelog.types import Node, TopicPartition

NAMED_MAX = 20
WHY_OFFLINE = "its disk failed or a batch is damaged: it takes nothing more; the broker's log says which"
WAY_ON = (
    "free or mend its disk, then restart it; where a batch is damaged, restore its files from a copy while the broker "
    "is stopped; without one, docs/runbook.md says how to send what is left to another topic, and how a partition of an "
    "internal topic begins anew"
)


def unread_row(what: object, error: KafkaError) -> dict[str, str]:
    """What could not be read, for a machine: {what, error, why}."""
    return {"what": str(what), "error": error_name(error), "why": why(error)}


def name_offline(
    settings: Settings,
    topics: Iterable[TopicView],
    unreadable: Mapping[TopicPartition, KafkaError] | None = None,
    *,
    within: Iterable[TopicPartition] | None = None,
) -> None:
    """Say which partitions (of `within`) could not be looked at, and which take nothing more."""
    errors = unreadable or {}
    wanted = None if within is None else set(within)
    named = sorted({*errors, *(tp for tp in offline_partitions(topics) if wanted is None or tp in wanted)})
    for where in named[:NAMED_MAX]:
        if where in errors:
            settings.out.note(
                f"error: {where} could not be looked at: {error_name(errors[where])}: {why(errors[where])}"
            )
        else:
            settings.out.note(f"warning: {where} is offline: {WHY_OFFLINE}")
    if len(named) > NAMED_MAX:
        settings.out.note(
            f"error: and {len(named) - NAMED_MAX} more partitions that are offline or could not be looked at"
        )


def name_unreachable(settings: Settings, what: str, unreachable: Mapping[Node, KafkaError]) -> None:
    """Say which brokers did not answer, and that `what` they coordinate is not among what was shown."""
    for node, error in sorted(unreachable.items()):
        settings.out.note(f"error: {what} of broker {node.node_id} are missing: {error_name(error)}: {error.message}")


async def coordinators_away(
    admin: Admin, settings: Settings, topic: str, what: str, unreachable: Mapping[Node, KafkaError]
) -> list[str]:
    """Those of `unreachable`, and the offline partitions of the coordinators' topic; each is named on stderr: `what` they
    coordinate is not among what is shown."""
    name_unreachable(settings, what, unreachable)
    offline = [str(each) for each in await admin.offline_coordinators() if each.topic == topic]
    for each in offline:
        settings.out.note(f"error: {each} is offline: the {what} that it has are missing")
    return [*map(str, unreachable), *offline]


def none_of_those_asked(none: str, silent: Collection[object], asked: str = "brokers") -> str:
    """What stands for no rows: an all-clear only where everybody was asked."""
    return f"{none} on the {asked} that answered" if silent else none


def why(error: KafkaError) -> str:
    """What an error of one partition means for who operates it."""
    meanings = {
        "KafkaStorage": WHY_OFFLINE,
        "LeaderNotAvailable": "no broker leads it now",
        "CorruptRecord": "what is stored there is not what was written",
    }
    return meanings.get(type(error).__name__, error.message or str(error))
