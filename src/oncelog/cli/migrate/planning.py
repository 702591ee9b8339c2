"""What a migration will do, before anything is done; and its first steps: topics, access rules, quotas at the destination."""

from __future__ import annotations

from dataclasses import asdict, field, replace
from typing import Any

from oncelog.cli.migrate.copying import visible
from oncelog.cli.migrate.sides import Sides, reader
from oncelog.cli.output import Failed, counted
from oncelog.cli.quota_text import entity_text, number_text
from oncelog.client.admin.admin import Acl, AclFilter, ConfigResource, NewTopic
from oncelog.client.cluster.view import TopicView
from oncelog.core.migration.progress import GROUP_PREFIX, Progress
from oncelog.core.migration.topics import WHILE_COPYING, final_configs, refusal, switch_changes
from oncelog.errors import ClusterAuthorization, GroupIdNotFound, KafkaError, SecurityDisabled, UnknownTopicOrPartition
from oncelog.lazy_dataclass import dataclass
from oncelog.types import OffsetAndMetadata, TopicPartition


@dataclass
class TopicPlan:
    """One topic; `configs` are those after the switch, `is_new` where the destination does not have it yet, `is_switched`
    where it is at home there already."""

    name: str
    partitions: int
    source_id: str
    is_new: bool
    is_switched: bool
    configs: dict[str, str]


@dataclass
class Plan:
    """All of it. `groups`: positions at the source; `notes`: what cannot be taken along, and why; `late`: partitions that the
    source got, and that were written, after the switch."""

    topics: list[TopicPlan] = field(default_factory=list)
    groups: dict[str, dict[TopicPartition, OffsetAndMetadata]] = field(default_factory=dict)
    acls: list[Acl] = field(default_factory=list)
    quotas: list[tuple[dict[str, str | None], dict[str, float]]] = field(default_factory=list)
    can_freeze: bool = False
    notes: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)

    def partitions(self) -> list[TopicPartition]:
        """All of the source's."""
        return [TopicPartition(each.name, index) for each in self.topics for index in range(each.partitions)]

    def document(self) -> dict[str, Any]:
        """For machines."""
        return {
            "topics": [asdict(each) for each in self.topics],
            "groups": {name: {str(tp): at.offset for tp, at in each.items()} for name, each in self.groups.items()},
            "acls": [asdict(each) for each in self.acls],
            "quotas": [{"entity": entity, "values": values} for entity, values in self.quotas],
            "source_can_be_frozen": self.can_freeze,
            "notes": self.notes,
        }


def freeze_rules(topics: tuple[str, ...]) -> list[Acl]:
    """Nobody writes to these any more, but for super users."""
    return [Acl("topic", name, "User:*", "write", permission="deny") for name in topics]


async def plan_of(sides: Sides, only_groups: tuple[str, ...]) -> Plan:
    """Asks both sides; changes nothing. Raises Failed where it cannot be done."""
    plan = Plan()
    try:
        there = await sides.source.describe_topics(sides.topics)
    except UnknownTopicOrPartition as error:
        raise Failed(f"there is no {error.message} at the source", sides.settings.repair("topics", "list")) from error
    at_destination = await sides.destination.list_topics(include_internal=True)
    state = await sides.stored(is_stable=False)
    home = sorted({tp.topic for tp, each in state.items() if each.is_switched})
    if home and len(home) < len(sides.topics):
        raise Failed(f"topic {home[0]} was switched before, others were not", "name either kind alone")
    for name in sides.topics:
        mine = {tp: each for tp, each in state.items() if tp.topic == name}
        topic = await _topic_plan(sides, there[name], at_destination.get(name), mine)
        plan.topics.append(topic)
        if "compact" in topic.configs.get("cleanup.policy", ""):
            sides.compacted.add(name)
            plan.notes.append(f"topic {name} is compacted: where its records differ, the last of each key are compared")
        if topic.is_switched:
            added = [TopicPartition(name, index) for index in range(len(mine), topic.partitions)]
            ends = await sides.source.list_offsets(dict.fromkeys(added, "latest"))
            plan.late += [str(tp) for tp in added if ends[tp].offset]
    await _refused_configs(sides, plan)
    plan.groups = await positions_of_groups(sides, only_groups, plan.partitions())
    await _access_rules(sides, plan)
    await _quotas(sides, plan)
    return plan


async def _topic_plan(
    sides: Sides, view: TopicView, theirs: TopicView | None, mine: dict[TopicPartition, Progress]
) -> TopicPlan:
    """One topic, of which `mine` is copied. Raises Failed where it cannot be copied."""
    name, is_switched = view.name, any(each.is_switched for each in mine.values())
    has_records = False
    if theirs is not None and not mine:
        has_records = await _has_visible(sides, [TopicPartition(name, index) for index in theirs.partitions])
    counts = len(view.partitions), None if theirs is None else len(theirs.partitions)
    why = None if is_switched and theirs is not None else refusal(name, *counts, has_records, bool(mine))
    if why is None and any(each.source_id.partition(":")[0] != view.topic_id.hex() for each in mine.values()):
        why = f"topic {name} was made anew at the source since its copy began: delete the copy, and begin again"
    if why is None and any(each.source_id != sides.mark_of(view.topic_id.hex()) for each in mine.values()):
        why = f"topic {name} was copied with another --filter-key, --mask or secret: give the same, or delete the copy"
    their_id = theirs.topic_id.hex() if theirs else ""
    if why is None and theirs and any(each.destination_id != their_id for each in mine.values()):
        why = f"topic {name} was made anew at the destination since its copy began: delete group {sides.group} there"
    if why is not None:
        raise Failed(why)
    configs = (await sides.source.describe_configs([ConfigResource("topic", name)]))[ConfigResource("topic", name)]
    values = {key: each.value for key, each in configs.items()}
    final = final_configs(values, [key for key, each in configs.items() if each.source == "dynamic topic"])
    return TopicPlan(name, len(view.partitions), view.topic_id.hex(), theirs is None, is_switched, final)


async def _has_visible(sides: Sides, partitions: list[TopicPartition]) -> bool:
    """Whether a reader finds a record there. A run that was killed in its first transaction leaves some that nobody sees."""
    begins = await sides.destination.list_offsets(dict.fromkeys(partitions, "earliest"))
    ends = await sides.destination.list_offsets(dict.fromkeys(partitions, "latest"), isolation_level="read_committed")
    async with reader(sides.to) as consumer:
        for tp in partitions:
            async for rows in visible(consumer, tp, begins[tp].offset, ends[tp].offset):
                if rows.num_rows:
                    return True
    return False


async def _refused_configs(sides: Sides, plan: Plan) -> None:
    """Keys that the destination does not take are left out, and named."""
    for topic in plan.topics:
        for key, value in list(topic.configs.items()):
            try:
                trial = NewTopic(f"{GROUP_PREFIX}trial", 1, configs={key: value})
                await sides.destination.create_topics([trial], validate_only=True)
            except KafkaError as error:
                del topic.configs[key]
                plan.notes.append(f"topic {topic.name}: {key}={value} is not taken: {error.message}")


async def groups_of(sides: Sides, only: tuple[str, ...]) -> list[str]:
    """The source's groups, or these of them. Raises Failed for one that is not there."""
    listed = await sides.source.list_groups()
    names = [each.group_id for each in listed if each.group_type.lower() != "share"]  # those keep no positions
    shares = [name for name in only if name in {each.group_id for each in listed} and name not in names]
    if shares:
        raise Failed(f"group {shares[0]} is a share group: what became of its records cannot be moved", "leave it out")
    missing = [name for name in only if name not in names]
    if missing:
        raise Failed(f"group {missing[0]} does not exist at the source", "`oncelog groups list` shows the known groups")
    return [name for name in only or names if not name.startswith(GROUP_PREFIX)]


async def positions_of_groups(
    sides: Sides, only: tuple[str, ...], partitions: list[TopicPartition]
) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
    """Of groups with positions in the topics (default: all groups), as they are now: a transaction may still move them."""
    found = {}
    for name in await groups_of(sides, only):
        try:
            offsets = await sides.source.list_consumer_group_offsets(name, partitions)
        except GroupIdNotFound:
            continue  # deleted meanwhile, or of another kind
        if offsets:
            found[name] = offsets
    return found


async def _access_rules(sides: Sides, plan: Plan) -> None:
    try:
        rules = await sides.source.describe_acls(AclFilter())
    except SecurityDisabled:
        return
    except ClusterAuthorization:
        plan.notes.append(
            "this user may not read the source's access rules: none are taken, and --switch cannot freeze it"
        )
        return
    frozen = freeze_rules(sides.topics)
    plan.can_freeze = True
    for name in sides.topics:
        about = await sides.source.describe_acls(AclFilter("topic", name, pattern_type="match"))
        if not [
            each for each in about if each not in frozen
        ]:  # with allow.everyone.if.no.acl.found one rule changes all
            plan.can_freeze = False
            plan.notes.append(f"no access rule is about topic {name}: one that denies writing could deny reading, too")
    if any(each in frozen for each in rules) and not any(topic.is_switched for topic in plan.topics):
        words = ("acls", "remove", "--topic", sides.topics[0], "--principal", "User:*", "--operation", "write")
        plan.notes.append(
            f"an earlier run froze the source: --switch goes on, `{sides.settings.repair(*words)}` makes it writable"
        )
    names = {("topic", name) for name in sides.topics} | {("group", name) for name in plan.groups}
    wanted = [each for each in rules if each not in frozen and (each.resource_type, each.resource_name) in names]
    plan.notes += [
        f"rule for {each.resource_type}s named {each.resource_name}... is not taken: it is of more than these topics"
        for each in rules
        if each.pattern_type == "prefixed" and any(k == each.resource_type and n.startswith(each.resource_name) for k, n in names)
        and each not in wanted
    ]  # fmt: skip
    try:
        there = await sides.destination.describe_acls(AclFilter())
    except SecurityDisabled:
        if wanted:
            plan.notes.append(f"the destination has no authorizer: {counted(len(wanted), 'access rule')} not taken")
        return
    except ClusterAuthorization:
        if wanted:
            plan.notes.append(
                f"this user may not read the destination's access rules: {counted(len(wanted), 'rule')} not taken"
            )
        return
    plan.acls = [each for each in wanted if each not in there]


async def _quotas(sides: Sides, plan: Plan) -> None:
    try:
        here = await sides.source.describe_client_quotas()
        found = await sides.destination.describe_client_quotas() if here else []
    except ClusterAuthorization:
        plan.notes.append("this user may not read the quotas of both sides: none are taken")
        return
    there = {str(sorted(each.entity.items())): each.values for each in found}
    for each in here:
        theirs = there.get(str(sorted(each.entity.items())), {})
        new = {key: value for key, value in each.values.items() if key not in theirs}
        plan.notes += [
            f"quota {key} of {entity_text(each.entity)} stays {number_text(theirs[key])} at the destination; "
            f"it is {number_text(value)} at the source"
            for key, value in each.values.items()
            if key in theirs and theirs[key] != value
        ]
        if new:
            plan.quotas.append((each.entity, new))


async def prepare(sides: Sides, plan: Plan, replication_factor: int) -> None:
    """Topics and access rules at the destination, and where each partition is. May be done again."""
    state = await sides.stored()
    home = {tp.topic for tp, each in state.items() if each.is_switched}
    sides.progress |= {tp: each for tp, each in state.items() if tp.topic in home}
    for topic in plan.topics:
        copying = {**topic.configs, **WHILE_COPYING}
        if topic.is_new:
            new = NewTopic(topic.name, topic.partitions, replication_factor, copying)
            await sides.destination.create_topics([new])
        elif topic.name not in home:
            await sides.destination.alter_configs({ConfigResource("topic", topic.name): copying})
    if plan.acls:
        await sides.destination.create_acls(plan.acls)
    views = await sides.destination.describe_topics(sides.topics)
    for topic in plan.topics:
        if topic.name in home:  # what is added to it at either side now is not a matter of the migration
            continue
        if len(views[topic.name].partitions) < topic.partitions:  # added at the source since
            await sides.destination.create_partitions({topic.name: topic.partitions})
        wanted = [TopicPartition(topic.name, index) for index in range(topic.partitions)]
        begins = await sides.source.list_offsets(dict.fromkeys(wanted, "earliest"))
        for tp in wanted:
            begin = begins[tp].offset
            new_one = Progress(sides.mark_of(topic.source_id), views[topic.name].topic_id.hex(), begin, begin)
            sides.progress[tp] = state.get(tp, new_one)


async def refuse_changed(sides: Sides, plan: Plan) -> None:
    """Raises Failed where a topic of the source is not the one any more that was copied."""
    views = await sides.source.describe_topics(sides.topics)
    for topic in plan.topics:
        view = views[topic.name]
        if view.topic_id.hex() != topic.source_id:
            raise Failed(f"topic {topic.name} was made anew at the source while it was copied: nothing was switched")
        if len(view.partitions) != topic.partitions:
            raise Failed(
                f"topic {topic.name} got partitions at the source while it was copied: nothing was switched",
                "run the same command again: it copies them, too",
            )


async def is_frozen(sides: Sides) -> bool:
    """Whether the rules that deny everybody to write at the source are there now."""
    try:
        rules = await sides.source.describe_acls(AclFilter("topic", operation="write", permission="deny"))
    except (SecurityDisabled, ClusterAuthorization):
        return False
    return all(each in rules for each in freeze_rules(sides.topics))


async def finish_topics(sides: Sides, plan: Plan) -> None:
    """At the switch: the configs that the topics are to have, and quotas."""
    changes: dict[ConfigResource | tuple[str, str], dict[str, str | None]] = {
        ConfigResource("topic", each.name): switch_changes(each.configs) for each in plan.topics
    }
    await sides.destination.alter_configs(changes)
    for entity, values in plan.quotas:
        await sides.destination.alter_client_quotas(entity, values)


def switched(sides: Sides) -> bool:
    """Whether the destination was declared to be the topics' home."""
    return bool(sides.progress) and all(each.is_switched for each in sides.progress.values())


def mark_switched(sides: Sides) -> dict[TopicPartition, Progress]:
    """The state to commit."""
    return {tp: replace(each, is_switched=True) for tp, each in sides.progress.items()}
