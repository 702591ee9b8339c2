"""The promises, checked on a broker that was started on what a power cut left."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

from evidence.crash.ledger import Ledger, Stage, Transaction
from evidence.crash.power_workload import GROUPS, TOPICS
from evidence.world.requests import Refused, Session

SETTLE_ROUNDS = 500


class Checker:
    """Acts as the clients would after the cut, then looks. `seed` decides who retries and who starts anew."""

    def __init__(self, session: Session, ledger: Ledger, seed: int | str) -> None:
        self.session, self.ledger = session, ledger
        self.random = random.Random(f"check {seed}")
        self.partitions = [(topic, index) for topic in ledger.topics for index in range(TOPICS[topic])]
        self.decided = {id(each): each.commits for each in ledger.transactions if each.stage is Stage.ENDED}

    async def run(self) -> None:
        """Raises AssertionError."""
        await self.fenced_stay_fenced()
        await self.nothing_hangs("after the start")
        last = {each.transactional_id: each for each in self.ledger.transactions}
        for transaction in last.values():
            if transaction.is_two_phase:
                await self.complete_prepared(transaction)
            elif transaction.stage is not Stage.OPEN and self.random.random() < 0.6:
                await self.retry_end(transaction)
        for name in sorted(name for name in self.ledger.identities if name != "idempotent"):
            await self.start_anew(name)
        await self.nothing_hangs("after all was ended")
        await self.duplicates_are_recognised()
        raw = {f"{t}-{p}": await self.session.read(t, p, committed=False) for t, p in self.partitions}
        committed = {
            f"{t}-{p}": set((await self.session.read(t, p, committed=True)).values()) for t, p in self.partitions
        }
        self.nothing_is_lost(raw)
        self.transactions_are_whole(committed)
        await self.offsets_followed()
        await self.life_goes_on()

    async def fenced_stay_fenced(self) -> None:
        for transaction in self.ledger.transactions:
            if not transaction.is_fenced:
                continue
            name, identity = transaction.transactional_id, transaction.identity
            for version in (11, 12):
                try:
                    await self.session.produce(
                        "t", 0, ["zombie"], identity=identity, sequence=1, name=name, version=version
                    )
                except Refused:
                    continue
                raise AssertionError(f"{name} {identity} was fenced, and produces again")
            try:
                await self.session.end(name, identity, commit=True)
            except Refused:
                continue
            raise AssertionError(f"{name} {identity} was fenced, and commits again")

    async def nothing_hangs(self, when: str) -> None:
        for name in self.ledger.identities:
            state = ""
            for _ in range(SETTLE_ROUNDS):
                state = await self.session.state(name)
                if not state.startswith("Prepare"):
                    break
                await asyncio.sleep(0.02)
            assert not state.startswith("Prepare"), f"{when}: {name} stays in {state}"

    async def complete_prepared(self, transaction: Transaction) -> None:
        """A new instance keeps it and follows the decision."""
        name = transaction.transactional_id
        reply = await self.session.init(name, enable_2pc=True, keep_prepared_txn=True)
        kept = (reply.ongoing_txn_producer_id, reply.ongoing_txn_producer_epoch)
        if transaction.stage is Stage.OPEN:
            assert kept == transaction.identity, f"{name}: {transaction.identity} was prepared, {kept} is kept"
        elif transaction.stage is Stage.ENDED:
            assert kept == (-1, -1), f"{name}: {kept} is open after its end was acknowledged"
        if kept[0] >= 0:
            await self.session.end(name, (reply.producer_id, reply.producer_epoch), commit=transaction.commits)
        self.decided[id(transaction)] = transaction.commits

    async def retry_end(self, transaction: Transaction) -> None:
        """The same question gets the same answer; the opposite one is refused."""
        name, identity = transaction.transactional_id, transaction.identity
        version = 5 if transaction.version >= 2 else 3
        if transaction.is_fenced:
            return
        if transaction.stage is Stage.ENDED:
            try:
                await self.session.end(name, identity, commit=not transaction.commits, version=version)
            except Refused:
                pass
            else:
                raise AssertionError(f"{name} {identity} was ended, and then ended otherwise")
        await self.session.end(name, identity, commit=transaction.commits, version=version)
        self.decided[id(transaction)] = transaction.commits

    async def start_anew(self, name: str) -> None:
        """A new instance gets a newer identity, and what it finds open is aborted."""
        before = self.ledger.identities[name]
        reply = await self.session.init(name)
        identity = (reply.producer_id, reply.producer_epoch)
        owner = self.ledger.producer_ids.get(identity[0], name)
        assert owner == name, f"producer id {identity[0]} of {owner} was given to {name}"
        assert identity[0] != before[0] or identity[1] > before[1], f"{name} had {before} and is given {identity}"
        for transaction in self.ledger.transactions:
            if transaction.transactional_id == name and transaction.stage is Stage.OPEN:
                self.decided.setdefault(id(transaction), False)

    async def duplicates_are_recognised(self) -> None:
        """What was acknowledged may be sent again (once more, it stays one), and the next sequence follows."""
        if "t-1" not in self.ledger.idempotent:
            return
        identity, value, sequence, offset = self.ledger.idempotent["t-1"]
        again = await self.session.produce("t", 1, [value], identity=identity, sequence=sequence)
        assert again == offset, f"{value} stood at {offset}, and again at {again}"

    def nothing_is_lost(self, raw: dict[str, dict[int, str]]) -> None:
        for (partition, offset), value in self.ledger.records.items():
            found = raw[partition].get(offset)
            assert found == value, f"{partition}@{offset}: {value} was acknowledged, {found} is there"
        for partition, records in raw.items():
            for value, count in Counter(records.values()).items():
                assert count == 1, f"{partition}: {value} stands {count} times"

    def transactions_are_whole(self, committed: dict[str, set[str]]) -> None:
        of_transactions = set()
        for transaction in self.ledger.transactions:
            of_transactions |= {value for _, value in transaction.values}
            seen = [value in committed[partition] for partition, value in transaction.values]
            what = f"{transaction.transactional_id} {transaction.identity}: {sum(seen)} of {len(seen)} visible"
            expected = self.decided.get(id(transaction))
            if expected is None:
                assert all(seen) or not any(seen), f"{what}: torn"
                self.decided[id(transaction)] = any(seen)
            else:
                assert seen == [expected] * len(seen), f"{what}, decided: {'commit' if expected else 'abort'}"
        for (partition, offset), value in self.ledger.records.items():
            is_plain = value not in of_transactions
            assert not is_plain or value in committed[partition], f"{partition}@{offset}: {value} is not visible"

    async def offsets_followed(self) -> None:
        """The position of each group is that of its last committed transaction."""
        for group in GROUPS:
            expected = -1
            for transaction in self.ledger.transactions:
                position = transaction.offsets.get((group, "t-0"))
                if position is not None and self.decided[id(transaction)]:
                    expected = position
            if any((group, "t-0") in each.offsets for each in self.ledger.transactions):
                found = await self.session.committed_offset(group)
                assert found == expected, f"{group} stands at {found}, and {expected} was committed"

    async def life_goes_on(self) -> None:
        """Everything can be written and is stable to its end: no transaction holds anything back."""
        if not self.partitions:
            return
        reply: Any = await self.session.init("afterwards")
        identity = (reply.producer_id, reply.producer_epoch)
        for topic, partition in self.partitions:
            await self.session.produce(
                topic, partition, ["afterwards"], identity=identity, sequence=0, name="afterwards"
            )
        await self.session.end("afterwards", identity, commit=True)
        for topic, partition in self.partitions:
            for _ in range(SETTLE_ROUNDS):
                end_offset = await self.session.end_offset(topic, partition, committed=False)
                stable = await self.session.end_offset(topic, partition, committed=True)
                if stable == end_offset:
                    break
                await asyncio.sleep(0.02)
            assert stable == end_offset, f"{topic}-{partition}: stable to {stable} of {end_offset}"
            assert "afterwards" in (await self.session.read(topic, partition, committed=True)).values()
