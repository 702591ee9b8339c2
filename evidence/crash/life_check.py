"""The promises of a log's life, checked on a broker that was started on what a power cut left."""

from __future__ import annotations

from evidence.crash.life_workload import CONFIG_KEY, GROUP, PASSING, RETAINED, TABLE, Known, LifeLedger
from evidence.crash.power_check import Checker
from evidence.world.requests import Refused, Session
from oncelog.broker.broker import Broker
from oncelog.errors import ErrorCode
from oncelog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource


def within(what: str, known: Known, found: int) -> None:
    """Not before what was acknowledged, not behind what was asked for."""
    assert known.acknowledged <= found <= known.asked, f"{what}: {found}, acknowledged {known}"


class LifeChecker(Checker):
    """Asks for everything. `compared` counts acknowledged records that were found at their places."""

    ledger: LifeLedger

    def __init__(self, session: Session, ledger: LifeLedger, seed: int | str, broker: Broker) -> None:
        super().__init__(session, ledger, seed)
        self._broker = broker
        self.compared = 0

    async def run(self) -> None:
        """Raises AssertionError."""
        missing = self.ledger.life_topics - self._broker.metadata.topics.keys()
        assert not missing, f"acknowledged topics are gone: {missing}"
        if TABLE in self.ledger.life_topics:
            await self.table("after the start", is_settled=False)  # an open transaction may hold readers back
        await super().run()
        if TABLE in self.ledger.life_topics:
            await self.table("after all was ended", is_settled=True)
        if RETAINED in self.ledger.life_topics:
            await self.retained()
        await self.passing()
        if "u" in self.ledger.topics:
            await self.configs()
        if "t" in self.ledger.topics:
            await self.position()
        self.compared += len(self.ledger.records) + len(self.ledger.idempotent)

    async def table(self, when: str, *, is_settled: bool) -> None:
        found: dict[str, int] = {}
        for record in await self.session.read_records(TABLE, 0, committed=True):
            key, number = bytes(record.key or b"").decode(), int(bytes(record.value or b""))
            assert key != "t" or number not in self.ledger.aborted_values, f"{when}: aborted value {number} is visible"
            assert number > found.get(key, 0), f"{when}: {key} goes back from {found.get(key)} to {number}"
            found[key] = number
        for key, known in self.ledger.table.items():
            assert found.get(key, 0) <= known.asked, f"{when}: {key} is {found[key]}, {known}"
            if is_settled:
                within(f"{when}: {key}", known, found.get(key, 0))
                self.compared += known.acknowledged > 0

    async def retained(self) -> None:
        start = await self.session.end_offset(RETAINED, 0, committed=False, timestamp=-2)
        within("log start", self.ledger.log_start, start)
        found = await self.session.read(RETAINED, 0, committed=True, start=start)
        for offset, value in self.ledger.retained.items():
            if offset >= start:
                assert found.get(offset) == value, f"{RETAINED}@{offset}: {value} was acknowledged, {found.get(offset)}"
                self.compared += 1

    async def passing(self) -> None:
        known = self.ledger.passing_generation
        exists = PASSING in self._broker.metadata.topics
        if known.acknowledged == known.asked:
            assert exists == (known.asked % 2 == 1), f"{PASSING}: {known}, exists: {exists}"
        if not exists:
            try:
                await self.session.read(PASSING, 0, committed=False)
            except Refused as refused:
                assert refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, refused  # noqa: PT017
                return
            raise AssertionError(f"{PASSING} was deleted, and is read")
        found = await self.session.read(PASSING, 0, committed=True)
        generations = {known.acknowledged, known.asked}
        for offset, value in found.items():
            assert int(value.split()[1].split(":")[0]) in generations, f"{PASSING}@{offset}: {value} of a deleted topic"
        if known.acknowledged % 2 == 1:
            for offset, value in self.ledger.passing.items():
                assert found.get(offset) == value, f"{PASSING}@{offset}: {value} was acknowledged"
                self.compared += 1

    async def configs(self) -> None:
        resource = DescribeConfigsResource(resource_type=2, resource_name="u", configuration_keys=[CONFIG_KEY])
        reply = await self.session.client.call(DescribeConfigsRequest(resources=[resource]), 4)
        value = int(reply.results[0].configs[0].value) - 10**11
        within(f"{CONFIG_KEY} of u", self.ledger.config, max(0, value))

    async def position(self) -> None:
        within(f"position of {GROUP}", self.ledger.position, max(await self.session.committed_offset(GROUP), 0))
