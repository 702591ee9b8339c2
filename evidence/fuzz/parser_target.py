"""Everything that reads bytes or text from outside, called directly: it reads them or says so by its own error."""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

import click

from evidence.fuzz.batches import damage, seal, whole_batch
from evidence.fuzz.findings import Findings, timed
from evidence.fuzz.mutation import mutated
from evidence.fuzz.values import PROTOCOL, Actor
from evidence.world.message_values import MESSAGE_VERSIONS, message_of
from oncelog.broker.config.addresses import address_from
from oncelog.broker.config.config import ConfigInvalid, config_from, properties_from, rules
from oncelog.checker.history import UnreadableHistory, read_history
from oncelog.cli.dump_log.files import Wanted, items_of
from oncelog.cli.durations import duration_from_text, moment_from_text
from oncelog.cli.main import root
from oncelog.cli.properties_file import properties_from_text
from oncelog.cli.record_format import compile_format
from oncelog.core.access.certificate import CertificateInvalid, subject_of, validity_of
from oncelog.core.access.listeners import ListenerInvalid, named_addresses, protocol_map
from oncelog.core.access.principal_mapping import RulesInvalid, mapping_rules
from oncelog.core.jaas import JaasInvalid, jaas_entry
from oncelog.core.leader.batch_checks import validate_produced
from oncelog.core.name_pattern import InvalidPattern, NamePattern
from oncelog.core.sasl.plain import PlainExchange
from oncelog.core.scram import ScramInvalid, parse_client_final, parse_client_first, parse_server_first
from oncelog.errors import (
    ConfigurationError,
    CorruptBatch,
    CorruptIndex,
    MalformedFrame,
    MalformedMessage,
    StorageError,
)
from oncelog.log.checkpoint_files import offsets_from_bytes, offsets_to_bytes, partition_metadata_from_bytes
from oncelog.log.producer_snapshot import snapshot_from_bytes, snapshot_to_bytes
from oncelog.log.producer_windows import SnapshotKey, windows_from_bytes, windows_to_bytes
from oncelog.log.transaction_index import aborted_from_bytes, aborted_to_bytes
from oncelog.types import AbortedTransaction, PreparedTxnState, ProducerSnapshotEntry, TopicPartition, WindowBatch
from oncelog.wire import consumer_protocol
from oncelog.wire.compression import Codec, compress, decompress
from oncelog.wire.frame import FrameReader, decode_request_header, encode_request
from oncelog.wire.log_records import cluster_metadata, consumer_offsets, transaction_state
from oncelog.wire.messages.api_versions import ApiVersionsRequest
from oncelog.wire.record_batch import batches
from oncelog.wire.schema import decode_message, encode_message

INPUTS = 4_000
# A certificate's outer parts, with a subject of two names, and no signature: nobody looks at one here.
CERTIFICATE = bytes.fromhex(
    "304e304ca00302010202010130003000301e170d3236303130313030303030305a170d3330303130313030303030305a301e"
    "310c300a060355040a0c034f7267310e300c06035504030c05616c696365"
)
DECOMPRESSED_MAX = 1 << 20
NOW_MS = 1_750_000_000_000


@dataclass
class Parser:
    """What is called with changed seeds, and which errors it may answer with."""

    name: str
    read: Callable[[Any], object]
    allowed: tuple[type[BaseException], ...]
    seeds: Sequence[Any] = field(default_factory=list)


def one_life(seed: str, findings: Findings, count: int = INPUTS) -> None:
    """Call all of them, `count` times together."""
    random = Random(f"fuzz {seed}")
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        parsers = [*_byte_parsers(), *_text_parsers(), *_file_parsers(pathlib.Path(folder))]
        for _ in range(count):
            chance = random.random()
            if chance < 0.5:
                parser, given = _message(random)
            elif chance < 0.7:
                parser, given = _batch(random)
            else:
                parser = random.choice(parsers)
                given = _changed(random, random.choice(parser.seeds))
            repeat = f"make fuzz SEED={seed}"
            with timed(findings, parser.name, repeat):
                try:
                    parser.read(given)
                except parser.allowed:
                    pass
                except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is: that is the question
                    findings.add_error(error, repeat, f"{parser.name}: {given!r:.2000}")
    findings.inputs["parsed"] += count


def _changed(random: Random, given: Any) -> Any:
    if given is None or random.random() < 0.05:
        return given
    if isinstance(given, bytes):
        return mutated(random, given)
    if isinstance(given, tuple):
        return tuple(_changed(random, each) if random.random() < 0.7 else each for each in given)
    text = mutated(random, given.encode()).decode("utf-8", "replace")
    if random.random() < 0.1:
        text += random.choice(
            ("9" * 400, "\0", "\u202e", "\U0001d7d9", "-1", "1e999", "%", "\\", "\\u", "{" * 1000, "[" * 100_000)
        )
    return text


@cache
def _whole(index: int, seed: int) -> bytes:
    cls, version = MESSAGE_VERSIONS[index]
    return encode_message(message_of(cls, version, Random(seed)), version)


def _message(random: Random) -> tuple[Parser, bytes]:
    index = random.randrange(len(MESSAGE_VERSIONS))
    cls, version = MESSAGE_VERSIONS[index]
    data = mutated(random, _whole(index, random.randrange(4)))
    return Parser(cls.__name__, lambda given: decode_message(cls, version, given), (MalformedMessage,)), data


def _batch(random: Random) -> tuple[Parser, bytes]:
    actor = Actor(0)
    actor.producer_id, actor.producer_epoch = random.choice((-1, 5)), 1
    batch = whole_batch(random, actor, NOW_MS)
    if random.random() < 0.9:
        damage(random, batch)
    if random.random() < 0.8:
        seal(batch)
    return Parser("record batch", _read_batches, (CorruptBatch,)), bytes(batch)


def _read_batches(data: bytes) -> None:
    validate_produced(data, api_version=12, size_bytes_max=1 << 20, compacted=True, now_ms=NOW_MS)
    for batch in batches(data):
        if batch.is_control:
            batch.end_txn_marker()
        batch.records(DECOMPRESSED_MAX)


def _byte_parsers() -> list[Parser]:
    snapshot = snapshot_to_bytes(
        [ProducerSnapshotEntry(5, 1, 7, 9, 2, NOW_MS, 3, 4), ProducerSnapshotEntry(6, 0, 1, 3, 0, 1, -1, -1)]
    )
    windows = windows_to_bytes({SnapshotKey(bytes(16), 1, 10): {5: (1, (WindowBatch(6, 8, 1, NOW_MS),) * 2)}})
    request = b"".join(encode_request(18, 3, 1, "c", ApiVersionsRequest()))
    transaction = [transaction_state.record_to_key_value(each) for each in _transaction_records()]
    parsers = [
        Parser(
            "SCRAM's first", parse_client_first, (ScramInvalid,), [b"n,,n=user,r=abc,x=y", b"y,a=a=2Cb,n=a=3D,r=!~"]
        ),
        Parser("SCRAM's answer", parse_server_first, (ScramInvalid,), [b"r=abcdef,s=YWJj,i=4096"]),
        Parser("SCRAM's last", parse_client_final, (ScramInvalid,), [b"c=biws,r=abcdef,p=YWJj"]),
        Parser("PLAIN", PlainExchange({}).respond, (), [b"a\0a\0b", b"\0user\0password"]),
        Parser("a certificate's subject", subject_of, (CertificateInvalid,), [CERTIFICATE]),
        Parser("a certificate's dates", validity_of, (CertificateInvalid,), [CERTIFICATE]),
        Parser("frames", lambda data: FrameReader(1 << 20).receive(data), (MalformedFrame,), [request, request * 3]),
        Parser(
            "request header", lambda data: decode_request_header(memoryview(data)), (MalformedMessage,), [request[4:]]
        ),
        Parser("producer snapshot", snapshot_from_bytes, (CorruptIndex,), [snapshot]),
        Parser("producer windows", windows_from_bytes, (CorruptIndex,), [windows]),
        Parser(
            "transaction index",
            lambda data: aborted_from_bytes(data, 0),
            (CorruptIndex,),
            [aborted_to_bytes(AbortedTransaction(5, 1, 9, 10)) + aborted_to_bytes(AbortedTransaction(5, 11, 19, 20))],
        ),
        Parser(
            "checkpoint",
            offsets_from_bytes,
            (CorruptIndex,),
            [offsets_to_bytes({TopicPartition("t", 0): 5, TopicPartition("a b", 1): 0})],
        ),
        Parser(
            "partition.metadata",
            partition_metadata_from_bytes,
            (CorruptIndex,),
            [b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"],
        ),
        Parser("subscription", consumer_protocol.subscription_from_bytes, (MalformedMessage,), [PROTOCOL]),
        Parser("assignment", consumer_protocol.assignment_from_bytes, (MalformedMessage,), [PROTOCOL]),
        Parser(
            "transaction log",
            lambda pair: transaction_state.record_from_key_value(*pair),
            (MalformedMessage,),
            transaction,
        ),
        Parser(
            "offsets log",
            lambda pair: consumer_offsets.record_from_key_value(*pair),
            (MalformedMessage,),
            _offset_pairs(),
        ),
        Parser("metadata log", cluster_metadata.record_from_value, (MalformedMessage,), _metadata_values()),
    ]
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        seeds = [compress(codec, data) for data in (b"", b"abc" * 50, bytes(300_000))]
        parsers.append(
            Parser(
                f"{codec.name} data",
                lambda data, codec=codec: decompress(codec, data, DECOMPRESSED_MAX),
                (CorruptBatch,),
                seeds,
            )
        )
    return parsers


def _transaction_records() -> list[Any]:
    partitions = frozenset((TopicPartition("t", 0), TopicPartition("u", 3)))
    record = transaction_state.TransactionRecord(
        "tx", 5, 1, 60_000, partitions=partitions, last_update_ms=1, start_ms=1
    )
    return [record, transaction_state.TransactionTombstone("tx")]


def _offset_pairs() -> list[tuple[bytes, bytes | None]]:
    commit = consumer_offsets.OffsetCommit(
        group_id="g", topic="t", partition=0, offset=5, metadata="m", commit_timestamp_ms=1, expire_timestamp_ms=-1
    )
    return [consumer_offsets.record_to_key_value(commit)]


def _metadata_values() -> list[bytes]:
    return [
        cluster_metadata.record_to_value(cluster_metadata.FeatureLevelRecord(name="x", level=1, features_epoch=1)),
        cluster_metadata.record_to_value(cluster_metadata.TopicRecord(name="t", topic_id=bytes(16), partition_count=1)),
    ]


def _text_parsers() -> list[Parser]:
    history = (
        '{"type":"invoke","process":1,"time":1,"value":[["send","t-0",1]]}\n'
        '{"type":"ok","process":1,"time":2,"value":[["send","t-0",[0,1]]]}\n'
    )
    keys = sorted(rules())
    return [
        Parser("server.properties", properties_from, (ConfigInvalid,), ["a.b=c\n#x\nd:e\\\nf\n"]),
        Parser("client.properties", properties_from_text, (), ["a=b\\u0041\n\\=c : d\\\n  e\n!x"]),
        Parser("duration", duration_from_text, (ValueError,), ["1h30m", "500ms", "2.5"]),
        Parser("moment", moment_from_text, (ValueError,), ["2026-11-21T03:07:49.120Z", "1700000000000"]),
        Parser("record format", compile_format, (ValueError,), ["%t [%p] at offset %o: %s\\n", "\\x41%h"]),
        Parser("prepared state", PreparedTxnState, (ValueError,), ["4000:7", "0:0"]),
        Parser("address", address_from, (ConfigInvalid,), ["127.0.0.1:9092", "[::1]:0", "PLAINTEXT://a:1"]),
        Parser("listeners", named_addresses, (ListenerInvalid,), ["A://:1,B://[::1]:2,CONTROLLER://h:3"]),
        Parser("protocol map", protocol_map, (ListenerInvalid,), ["A:SSL, b:sasl_plaintext"]),
        Parser("JAAS", jaas_entry, (JaasInvalid,), ['a.B required user_x="y\\"z" n=1;']),
        Parser("mapping rules", mapping_rules, (RulesInvalid,), ["RULE:^CN=(.*?),.*$/$1/L, DEFAULT"]),
        Parser("history", lambda text: list(read_history(io.StringIO(text))), (UnreadableHistory,), [history]),
        Parser(
            "name pattern",
            _pattern,
            (InvalidPattern,),
            ["(a+)+b|[a-z]{2,5}.*", "(?i)^t\\d$", "(" * 400, "a{1000}{1000}"],
        ),
        Parser("config", _config, (ConfigInvalid,), [f"{key}=1" for key in keys[:: max(len(keys) // 40, 1)]]),
        Parser(
            "arguments",
            _arguments,
            (),
            ["produce t --key a", "transactions list --state Ongoing", "topics create t -p 3"],
        ),
    ]


def _pattern(text: str) -> None:
    pattern = NamePattern(text)
    for name in ("", "topic", "a" * 200, "Ω-1"):
        pattern.matches(name)


def _config(text: str) -> None:
    key, _, value = text.partition("=")
    config_from({key: value})


def _arguments(text: str) -> None:
    """The command line up to the point where it would connect: `--help` at the end keeps it from that."""
    words = [*text.split(), "--help"]
    said, expected = io.StringIO(), (click.ClickException, click.exceptions.Exit, ConfigurationError)
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), contextlib.suppress(*expected):
        root.main(words, standalone_mode=False)


def _file_parsers(folder: pathlib.Path) -> list[Parser]:
    actor = Actor(0)
    segment = b"".join(bytes(whole_batch(Random(number), actor, NOW_MS)) for number in range(4))
    seeds = {
        "00000000000000000000.log": segment,
        "00000000000000000000.index": bytes(16),
        "00000000000000000000.timeindex": bytes(24),
        "00000000000000000000.txnindex": aborted_to_bytes(AbortedTransaction(5, 1, 9, 10)),
        "00000000000000000010.snapshot": snapshot_to_bytes([ProducerSnapshotEntry(5, 1, 7, 9, 2, NOW_MS, 3, 4)]),
        "leader-epoch-checkpoint": b"0\n1\n0 0\n",
        "replication-offset-checkpoint": b"0\n1\nt 0 5\n",
        "partition.metadata": b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
    }
    directory = folder / "t-0"
    directory.mkdir()

    def dump(name: str) -> Callable[[bytes], None]:
        def read(data: bytes) -> None:
            path = directory / name
            path.write_bytes(data)
            for _ in items_of(str(path), Wanted()):
                pass

        return read

    return [Parser(f"dump-log {name}", dump(name), (StorageError,), [data]) for name, data in seeds.items()]
