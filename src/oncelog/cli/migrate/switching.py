"""The switch: nobody writes at the source any more, the rest is copied, and the destination becomes the topics' home."""

from __future__ import annotations

import asyncio

from oncelog.cli.migrate.copying import Copy
from oncelog.cli.migrate.planning import Plan, finish_topics, freeze_rules, mark_switched, refuse_changed
from oncelog.cli.migrate.sides import Sides
from oncelog.cli.output import Failed, counted
from oncelog.client.admin.admin import Acl, AclFilter
from oncelog.client.producer.producer import Producer
from oncelog.core.migration.verdict import blocking
from oncelog.errors import TransactionalIdNotFound
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition

STILL_MS = 500
NEVER_MS = 2**31 - 1
OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")


@dataclass
class Switch:
    """`wait_ms`: how long to wait for the source to stand still."""

    sides: Sides
    plan: Plan
    copy: Copy
    producer: Producer
    wait_ms: int

    async def everything(self) -> None:
        """Refused before anything changes where a decision is missing. Raises Failed; the source is writable again then."""
        sides = self.sides
        _, undecided = await self._open_transactions()
        if undecided:
            names = ", ".join(undecided[:5])
            raise Failed(
                f"a decision is missing for {counted(len(undecided), 'transaction')}: {names}; nothing was switched",
                f"`{sides.settings.repair('transactions', 'resolve')} --from ...`, or `transactions complete` and `abort`",
            )
        rules = freeze_rules(sides.topics) if self.plan.can_freeze else []
        if rules:
            await sides.source.create_acls(rules)
            sides.note("the source is frozen: a rule denies everybody to write (super users pass it)")
        else:
            sides.note(
                "the source cannot be frozen by a rule: nothing there stops a writer. Stop the writers now;",
                f"the switch comes when nothing was written for {STILL_MS} ms",
            )
        is_deciding = False
        try:
            await self._until_still()
            await refuse_changed(sides, self.plan)
            await finish_topics(sides, self.plan)
            state = mark_switched(sides)
            async with self.producer.transaction():
                await sides.commit(self.producer, state)
                is_deciding = True
            sides.progress |= state
        except BaseException:
            if (
                rules and is_deciding
            ):  # else both sides could be writable, and the next run would take the switch for made
                sides.note(
                    "whether the destination knows of the switch is not known: the source stays frozen;",
                    "run the same command again",
                )
            elif rules:
                await self._thaw(rules)
            raise
        sides.note("switched: write to the destination from now on")

    async def _thaw(self, rules: list[Acl]) -> None:
        await self.sides.source.delete_acls(
            [AclFilter("topic", each.resource_name, each.principal, "write", "deny", "literal", "*") for each in rules]
        )
        self.sides.note("the source is writable again: the rule was removed")

    async def _until_still(self) -> None:
        clock = asyncio.get_running_loop().time
        began_s, still_s = clock(), clock()
        last: dict[TopicPartition, int] = {}
        while True:
            ends = await self._ends()
            if ends != last:
                last, still_s = ends, clock()
            waits = sorted(str(tp) for tp, end in ends.items() if self.sides.progress[tp].source_offset < end)
            is_still = (clock() - still_s) * 1000 >= STILL_MS
            if is_still and not waits and not any(await self._open_transactions()):
                return
            if (clock() - began_s) * 1000 > self.wait_ms:
                ongoing, undecided = await self._open_transactions()
                what = f"open transactions: {', '.join((ongoing + undecided)[:5])}" if ongoing or undecided else (
                    f"not readable to the end: {', '.join(waits[:5])}" if waits and is_still else "it is still written"
                )  # fmt: skip
                raise Failed(
                    f"the source did not stand still within {self.wait_ms / 1000:g} s ({what}); nothing was switched",
                    f"stop its writers; `{self.sides.settings.repair('transactions', 'find-hanging')}` finds what nobody ends",
                )
            if not await self.copy.chunk():
                await asyncio.sleep(0.02)

    async def _ends(self) -> dict[TopicPartition, int]:
        found = await self.sides.source.list_offsets(dict.fromkeys(self.sides.progress, "latest"))
        return {tp: at.offset for tp, at in found.items()}

    async def _open_transactions(self) -> tuple[list[str], list[str]]:
        listed = await self.sides.source.list_transactions(states=OPEN_STATES)
        if not listed:
            return [], []
        try:
            found = await self.sides.source.describe_transactions([each.transactional_id for each in listed])
        except TransactionalIdNotFound:  # it expired between both questions
            return await self._open_transactions()
        return blocking(
            {
                name: (any(tp.topic in self.sides.topics for tp in each.partitions), each.timeout_ms == NEVER_MS)
                for name, each in found.items()
                if each.is_open
            }
        )
