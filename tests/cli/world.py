"""What the command line's tests share: running `oncelog`, and transactions left open in every way there is."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from click.testing import CliRunner, Result

from oncelog import Admin, Producer, TopicPartition
from oncelog.cli.main import root
from oncelog.testing import TestBroker
from oncelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.wire.record_batch import build_batch

LONG_AGO_MS = 1_700_000_000_000
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def oncelog(*arguments: object, stdin: str | bytes | None = None) -> Result:
    """Run the root command in this process; a bug's traceback fails the test."""
    result = CliRunner().invoke(root, [str(each) for each in arguments], input=stdin, prog_name="oncelog")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


OPEN_MS = 900_000  # as long as a broker allows: what a test leaves open must not end by itself while a slow machine looks at it


@dataclass
class Cli:
    """`oncelog -b BROKER ...`."""

    bootstrap_servers: str
    keeps: bool = True
    """Whether prepared transactions are kept for who comes after: in no release of Apache Kafka."""

    def __call__(self, *arguments: object, stdin: str | bytes | None = None, status: int = 0) -> Result:
        result = oncelog("-b", self.bootstrap_servers, *arguments, stdin=stdin)
        assert result.exit_code == status, (result.stdout, result.stderr)
        return result

    def json(self, *arguments: object, stdin: str | bytes | None = None, status: int = 0) -> Any:
        """With `-o json`: stdout must be one document and nothing else."""
        return json.loads(self(*arguments, "-o", "json", stdin=stdin, status=status).stdout)

    def create(self, topic: str, partitions: int = 1) -> str:
        self("topics", "create", topic, "-p", partitions)
        return topic

    def leave_open(
        self,
        topic: str,
        transactional_id: str,
        *,
        two_phase: bool = False,
        count: int = 3,
        timeout_ms: int = OPEN_MS,
    ) -> str:
        """Records in a transaction that nobody ends; its state as `complete` takes it."""
        more: dict[str, Any] = {"transaction_timeout_ms": timeout_ms}
        if two_phase:  # which has no timeout
            more = {"transaction_two_phase_commit_enable": True, "keep_prepared_txn": self.keeps}
        return asyncio.run(self._leave_open(topic, transactional_id, two_phase, count, more))

    async def _leave_open(
        self, topic: str, transactional_id: str, two_phase: bool, count: int, more: dict[str, Any]
    ) -> str:
        producer = Producer(bootstrap_servers=self.bootstrap_servers, transactional_id=transactional_id, **more)
        await producer.start()
        producer.begin_transaction()
        for number in range(count):
            await producer.send(topic, value=f"{transactional_id}-{number}".encode(), partition=0)
        state = await (producer.prepare_transaction() if two_phase else producer.detach_transaction())
        await producer.stop()
        return str(state)

    def keep(self, transactional_id: str) -> str:
        """A newer instance comes, keeps the prepared transaction (KIP-939) and goes; what it kept."""
        return asyncio.run(self._keep(transactional_id))

    async def _keep(self, transactional_id: str) -> str:
        more: dict[str, Any] = {"transaction_two_phase_commit_enable": True, "keep_prepared_txn": True}
        servers = self.bootstrap_servers
        async with Producer(bootstrap_servers=servers, transactional_id=transactional_id, **more) as producer:
            return str(producer.prepared_state)

    def leave_hanging(self, topic: str, transactional_id: str) -> int:
        """A transaction on the partition that its coordinator knows nothing of (KAFKA-9144); its producer id."""
        return asyncio.run(self._leave_hanging(topic, transactional_id))

    async def _leave_hanging(self, topic: str, transactional_id: str) -> int:
        async with Admin(bootstrap_servers=self.bootstrap_servers) as admin:
            ghost = (await admin.fence_producers([transactional_id]))[transactional_id]
            await self._write_unknown(admin, topic, transactional_id, ghost.producer_id, ghost.producer_epoch)
            return ghost.producer_id

    def leave_hanging_behind_commit(self, topic: str, transactional_id: str) -> int:
        """As `leave_hanging`, of an id whose last transaction was committed: as if a marker had been lost."""
        return asyncio.run(self._leave_hanging_behind_commit(topic, transactional_id))

    async def _leave_hanging_behind_commit(self, topic: str, transactional_id: str) -> int:
        options = {"bootstrap_servers": self.bootstrap_servers, "transactional_id": transactional_id}
        async with Producer(**options) as producer, producer.transaction():
            await producer.send(topic, b"committed")
        async with Admin(bootstrap_servers=self.bootstrap_servers) as admin:
            owner = (await admin.describe_transactions([transactional_id]))[transactional_id]
            await self._write_unknown(admin, topic, transactional_id, owner.producer_id, owner.producer_epoch)
            return owner.producer_id

    async def _write_unknown(
        self, admin: Admin, topic: str, transactional_id: str, producer_id: int, producer_epoch: int
    ) -> None:
        batch = build_batch(
            [(LONG_AGO_MS, b"k", b"ghost", ())],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        records = PartitionProduceData(index=0, records=bytes(batch))
        message = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[records])],
        )
        node = await admin._cluster.leader(TopicPartition(topic, 0))
        # Version 11: the client says to the coordinator what it writes to, which this one never did.
        response = await admin._cluster.request(node, message, version_max=11)
        assert response.responses[0].partition_responses[0].error_code == 0


@contextlib.contextmanager
def damaged_broker(directory: pathlib.Path, *prepare: Callable[[Cli], object]) -> Iterator[Cli]:
    """A broker that was started anew over damage: the third batch of flip-0 has a flipped byte, lost-0 does not open at all; each
    had four batches, of a hundred times "a" to "d". `prepare` is called before the damage is done."""
    with TestBroker(data_dir=str(directory)) as broker:
        cli = Cli(broker.bootstrap_servers)
        for topic in ("flip", "lost"):
            cli.create(topic, 2)
            for text in ("a", "b", "c", "d"):
                cli("produce", topic, "-p", 0, stdin=text * 100)
        for each in prepare:
            each(cli)
    for topic, at in (("flip", 0), ("lost", 80)):
        log = directory / f"{topic}-0" / "00000000000000000000.log"
        data = bytearray(log.read_bytes())
        data[at or data.index(b"c" * 100)] ^= 1
        log.write_bytes(data)
    for snapshot in (directory / "lost-0").glob("*.snapshot"):
        snapshot.unlink()
    with TestBroker(data_dir=str(directory)) as broker:
        yield Cli(broker.bootstrap_servers)


def cli_as(broker: TestBroker, user: str, directory: pathlib.Path) -> Cli:
    """The command line of one of a broker's users, who logs in with PLAIN: `--command-config` before each command."""
    path = directory / f"{user}.properties"
    password = broker.client_options(user)["sasl_password"]
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={PLAIN_MODULE} required username="{user}" password="{password}";\n'
    )
    path.chmod(0o600)

    class AsUser(Cli):
        def __call__(self, *arguments: object, **more: object) -> object:  # type: ignore[override]
            return super().__call__("--command-config", path, *arguments, **more)  # type: ignore[arg-type]

    return AsUser(broker.bootstrap_servers)
