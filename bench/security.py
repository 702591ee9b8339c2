"""What TLS and SCRAM cost: megabytes for a second of the broker's CPU time beside Apache Kafka's, a commit beside a plain one.

Both brokers have a plain listener and one of SASL_SSL with SCRAM-SHA-256, the same certificate and user; librdkafka asks.
"""

from __future__ import annotations

import contextlib
import pathlib
import tempfile
from collections.abc import Callable, Iterator
from functools import partial

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from bench.brokers import consume_rate, produce_rate, transactions_of_one
from bench.costs import Measured, cpu, figures, rate, spending
from bench.pairs import KAFKA, OURS, ROUNDS, in_turn, median, percentile
from bench.parts import ROWS
from bench.selection import Wanted
from bench.servers import Server, apache_kafka, build_directory, free_port, oncelog
from bench.table import Row
from oncelog.host.certificate_authority import Authority

SIZE_BYTES, TOTAL_MB, WARM_UP_MB = 1_000, 150, 300  # warm: a JVM compiles what it does often
COMMITS = 200
USER, PASSWORD = "bench", "bench-password"
MECHANISM = "SCRAM-SHA-256"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


class Secured:
    """A running broker with both listeners, and what a client needs for the secured one."""

    def __init__(self, server: Server, port: int, authority: str) -> None:
        self.server = server
        self.options = {
            "bootstrap_servers": f"127.0.0.1:{port}",
            "security_protocol": "SASL_SSL",
            "ssl_ca_location": authority,
            "sasl_mechanism": MECHANISM,
            "sasl_username": USER,
            "sasl_password": PASSWORD,
        }

    def add_user(self) -> None:
        """By the plain listener."""
        admin = AdminClient({"bootstrap.servers": self.server.bootstrap})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4_096)
        wanted = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
        for future in admin.alter_user_scram_credentials([wanted]).values():
            future.result(30)


@contextlib.contextmanager
def secured(with_kafka: bool) -> Iterator[dict[str, Secured]]:
    """oncelog, and Apache Kafka where it can be had, by name; ours never waits for the disk here, as Apache Kafka comes."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(dir=build_directory()))
        authority = Authority()
        trusted = pathlib.Path(directory) / "ca.pem"
        trusted.write_text(authority.pem)
        store = authority.sign("broker", ["127.0.0.1", "localhost"]).write(directory, "broker")
        found: dict[str, Secured] = {}
        for name in (OURS, KAFKA) if with_kafka else (OURS,):
            plain, secure, controller = free_port(), free_port(), free_port()
            listeners = f"PLAINTEXT://127.0.0.1:{plain},SECURE://127.0.0.1:{secure}"
            protocols = "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL"
            config: dict[str, object] = {
                "listeners": listeners,
                "listener.security.protocol.map": protocols,
                "sasl.enabled.mechanisms": MECHANISM,
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": store,
            }
            if name == OURS:
                server = stack.enter_context(oncelog(OURS, **config, flush_policy="os"))
            else:
                config |= {
                    "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
                    "advertised.listeners": listeners,
                    "controller.quorum.voters": f"1@127.0.0.1:{controller}",
                    "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{protocols}",
                    "listener.name.secure.scram-sha-256.sasl.jaas.config": MODULE,
                }
                server = stack.enter_context(apache_kafka(KAFKA, plain, **config))
            found[name] = Secured(server, secure, str(trusted))
            found[name].add_user()
        yield found


def spent_on(server: Server, work: Callable[[], float], total_mb: int = TOTAL_MB) -> Measured:
    """Megabytes for each second of the broker's CPU time."""
    with spending(server) as spent:
        work()
    found = rate(spent, total_mb)
    return Measured(total_mb / spent.broker_s, found.broker_us, found.client_us)


def security(with_kafka: bool, wanted: Wanted) -> list[Row]:
    """Throughput over TLS, and a commit with TLS and SCRAM beside a plain one of the same broker."""
    rows: list[Row] = []
    keys = wanted.of(ROWS["security"])
    with secured(with_kafka) as brokers:
        servers = [each.server for each in brokers.values()]
        if {"produce", "consume"} & set(keys):
            rows += throughput(brokers, servers, keys)
        if "commit" in keys:
            rows += commits(brokers[OURS])
    return rows


def throughput(brokers: dict[str, Secured], servers: list[Server], keys: list[str]) -> list[Row]:
    """What is consumed was produced before; both over TLS."""
    for server in servers:
        options = brokers[server.name].options
        produce_rate(server, SIZE_BYTES, "warm", WARM_UP_MB, **options)
        consume_rate(server, SIZE_BYTES, "warm", WARM_UP_MB, **options)

    def both(work: Callable[..., float], server: Server, i: int) -> Measured:
        options = brokers[server.name].options
        return spent_on(server, partial(work, server, SIZE_BYTES, f"tls-{i}", TOTAL_MB, **options))

    rows = []
    for key, work in (("produce", produce_rate), ("consume", consume_rate)):
        measured = in_turn(servers, partial(both, work), what=key)
        if key not in keys:
            continue
        found = figures(measured)
        rows.append(
            Row(
                f"{key} over TLS with SCRAM, {SIZE_BYTES:,} B records, for a second of the broker's CPU",
                "MB",
                median(found, OURS),
                median(found, KAFKA),
                better="more",
                aim=">= 0.8x",
                note=f"median of {ROUNDS}, flush.policy=os",
                cpu=cpu(measured, OURS, KAFKA, "MB"),
            )
        )
    return rows


def commits(broker: Secured) -> list[Row]:
    """One-record transactions in turn, plain and secured."""
    samples: dict[str, list[float]] = {"plain": [], "secured": []}
    for i in range(ROUNDS):
        for kind in ("plain", "secured") if i % 2 == 0 else ("secured", "plain"):
            options = broker.options if kind == "secured" else {}
            samples[kind] += transactions_of_one(broker.server, COMMITS, f"commit-{kind}-{i}", **options).commits
    for each in samples.values():
        each.sort()
    return [
        Row(
            f"commit with TLS and SCRAM, {word}",
            "ms",
            percentile(samples["secured"], share),
            percentile(samples["plain"], share),
            other_name="oncelog, plain",
            aim=">= 0.77x",
            note=f"n={len(samples['plain'])}, flush.policy=os",
        )
        for word, share in (("p50", 0.5), ("p99", 0.99))
    ]
