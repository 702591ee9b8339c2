"""Why groups stand still, for pages that show many of them: the facts and causes of `oncelog why`, asked for together and again
and again. Transactions are not among them: these are told by who looks at partitions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from oncelog.cli.command import Settings
from oncelog.cli.transactions.group_scope import GroupScope, describe_group
from oncelog.cli.why.collecting import group_facts, is_guarded
from oncelog.cli.why.looking import Looking
from oncelog.cli.why.quotas import QuotaReading
from oncelog.cli.why.words import row, told
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.groups import GroupDescription
from oncelog.core.diagnosis import causes as kinds
from oncelog.core.diagnosis.causes import causes
from oncelog.core.diagnosis.facts import GROUP, Facts, NotRead, PartitionFacts
from oncelog.core.diagnosis.group_memory import GroupMemory, lasting_causes
from oncelog.core.lanes.view import CALM_MS
from oncelog.errors import GroupAuthorization, GroupIdNotFound
from oncelog.types import OffsetAndMetadata, TopicPartition

# What a group stands still for, seen from the lanes that it reads. That nobody reads holds nobody back: other pages say so.
GROUP_KINDS = (kinds.OUT_OF_RANGE, kinds.REBALANCING, kinds.NO_PARTITIONS, kinds.QUOTA)
Positions = Mapping[TopicPartition, OffsetAndMetadata]


async def positions_of(looking: Looking, names: Iterable[str]) -> dict[str, Positions]:
    """The stored positions of each group; those that may not be seen are `not_read`."""
    found: dict[str, Positions] = {}
    for name in names:
        asked = looking.admin.list_consumer_group_offsets(name)
        if (positions := await looking.ask(f"group {name}", asked, name)) is not None:
            found[name] = positions
    return found


async def described(admin: Admin, names: Sequence[str]) -> dict[str, GroupDescription]:
    """In one question where it can be. One that has just gone, or that may not be seen, hides no other."""
    try:
        return await admin.describe_groups(names) if names else {}
    except (GroupIdNotFound, GroupAuthorization):
        found = {}
        for name in names:
            try:
                group = await describe_group(admin, name)
            except GroupAuthorization:
                continue
            if group is not None:
                found[name] = group
        return found


class GroupJudge:
    """Looks at groups again and again, and remembers what it saw: a rebalance without end shows without waiting for it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._memory = GroupMemory()

    def is_watching(self, name: str) -> bool:
        """Whether something was seen of it at the last look that is a moment's, or a cause when it lasts."""
        return self._memory.is_watching(name)

    async def look(
        self,
        looking: Looking,
        scopes: Mapping[str, GroupScope],
        partitions_of: Callable[[GroupScope], tuple[PartitionFacts, ...]],
        now_ms: int,
        kept: Collection[str],
    ) -> dict[str, list[dict[str, Any]]]:
        """The causes of each group, as rows of `oncelog why -o json`, with the group's name. `kept`: all that there are."""
        self._memory.keep(kept)
        reading, guarded = QuotaReading(looking), False
        if empty := [name for name, scope in scopes.items() if scope.group is None or not scope.group.members]:
            guarded = await is_guarded(looking, empty[0])
        found = {}
        for name, scope in scopes.items():
            partitions = partitions_of(scope)
            facts = Facts(
                GROUP,
                name,
                partitions,
                group=self._memory.seen(group_facts(scope, now_ms)),
                quotas=await reading.quotas_of(partitions),
                is_guarded=guarded,
            )
            seen = lasting_causes(facts, CALM_MS)
            found[name] = [row(each, told(self._settings, facts, each)) | {"group": name} for each in seen]
        return found


def rights_rows(settings: Settings, missing: Iterable[NotRead]) -> list[dict[str, Any]]:
    """One cause for all that may not be seen, as a row; none where it was not for want of rights."""
    facts = Facts(None, "", not_read=tuple(missing))
    return [row(each, told(settings, facts, each)) for each in causes(facts, 0)]
