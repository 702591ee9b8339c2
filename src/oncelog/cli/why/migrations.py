"""What belongs to `oncelog migrate`: its state and its transactions, which are not mended like a reader's, and frozen topics."""

from __future__ import annotations

from collections.abc import Collection

from oncelog.cli.why.looking import Looking
from oncelog.client.admin.acls import AclFilter
from oncelog.core.diagnosis.facts import Facts
from oncelog.errors import KafkaError

NAMED_MAX = 5
WHOSE = "It is a migration's (`oncelog migrate`)"
DO = "let it run; where it was killed, run the same command again: it takes over and goes on where that one was"


async def frozen_topics(looking: Looking, names: Collection[str]) -> frozenset[str]:
    """Those of the topics that a rule denies everybody to write; none where rules are not kept, or not shown."""
    wanted = AclFilter("topic", None, "User:*", "write", "deny", "literal")
    try:
        rules = await looking.admin.describe_acls(wanted) if names else []
    except KafkaError:
        return frozenset()
    return frozenset(each.resource_name for each in rules).intersection(names)


def migration_notes(facts: Facts) -> list[str]:
    """What is to be known of it, and what to do."""
    found = []
    if facts.group is not None and facts.group.is_migration:
        state = f"{facts.name} is where `oncelog migrate` keeps how far it has copied: nobody reads with it"
        found.append(
            f"{state}, and its positions are offsets of the source. Change nothing; to go on, run the same "
            "`oncelog migrate` again. It may be deleted when the topics have moved for good"
        )
    if facts.frozen:
        some = ", ".join(sorted(facts.frozen)[:NAMED_MAX])
        more = f" and {len(facts.frozen) - NAMED_MAX} more" if len(facts.frozen) > NAMED_MAX else ""
        found.append(
            f"nobody may write to {some}{more}, a rule denies it to everybody: `oncelog migrate --switch` makes such a "
            "rule when topics have moved; their producers and groups go on at the destination"
        )
    return found
