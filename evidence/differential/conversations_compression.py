"""A topic's compression.type: the broker compresses anew what comes in another codec (`record_batch.recompressed`)."""

from __future__ import annotations

from typing import Any

from evidence.differential.conversation import READ_COMMITTED, READ_UNCOMMITTED, Conversation, error_name
from evidence.differential.scenario import family, scenario
from oncelog.wire.record_batch import batches

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TYPES = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
TOPIC, BROKER = 2, 4
HEADERS = (("h", b"1"), ("h", None), ("", b""))


def stored(x: Conversation, topic: str, partition: int = 0, offset: int = 0) -> None:
    """What is in the log, a line for each batch; sizes only of what nobody compressed."""
    for batch in batches(x.fetch_partition(topic, partition, offset).records or b""):
        records = [
            f"{each.offset}:{x.time(each.timestamp)}:{each.key}:{bytes(each.value or b'')[:4]}:{list(each.headers)}"
            for each in batch.records()
        ]
        flags = f"type={batch.timestamp_type} txn={batch.is_transactional} control={batch.is_control}"
        shape = f"n={batch.record_count} delta={batch.last_offset_delta} max={x.time(batch.max_timestamp)}"
        size = f" bytes={batch.size_bytes}" if not batch.codec else ""
        producer = x.producer((batch.producer_id, batch.producer_epoch))
        x.say(
            f"   codec={CODECS[batch.codec]} {flags} {shape} {producer} seq={batch.base_sequence}{size} crc={batch.crc_is_valid}",
            *([] if batch.is_control else records[:3]),
        )


def set_config(x: Conversation, name: str, key: str, value: str | None, kind: int = TOPIC) -> str:
    configs = [{"name": key, "config_operation": 0 if value is not None else 1, "value": value}]
    asked = [{"resource_type": kind, "resource_name": name, "configs": configs}]
    return error_name(x.call("IncrementalAlterConfigs", 1, resources=asked).responses[0].error_code)


def each_codec(x: Conversation, topic: str) -> None:
    for codec in range(5):
        values = [b"%d" % codec + b"x" * 300, b"y" * 300, b""]
        keys, more = [b"k", None, b""], {"headers": HEADERS}
        x.produce(topic, 0, values, keys=keys, codec=codec, ts_step=1000, label=f" {CODECS[codec]}", **more)  # type: ignore[arg-type]


@family("core", TYPES)
def compression_type(x: Conversation, wanted: str) -> None:
    t = x.topic("a", compression_type=wanted)
    each_codec(x, t)
    stored(x, t)


@family("core", TYPES)
def compression_type_and_append_time(x: Conversation, wanted: str) -> None:
    t = x.topic("a", compression_type=wanted, message_timestamp_type="LogAppendTime")
    for codec in (0, 1, 4):
        found = x.produce(t, 0, [b"v" * 100] * 3, codec=codec, ts_step=1000, quiet=True)
        x.say(CODECS[codec], error_name(found.error_code), x.time(found.log_append_time_ms))
    stored(x, t)


@scenario("core")
def compression_type_and_producers(x: Conversation) -> None:
    """Sequences, duplicates, transactions and their markers."""
    t = x.topic("a", compression_type="zstd")
    pid, e = x.init(None)
    for sequence in (0, 3, 0, 3):
        x.produce(t, 0, n=3, producer=(pid, e), sequence=sequence, codec=1)
    x.produce(t, 0, n=3, producer=(pid, e), sequence=9, codec=1, label=" a gap")
    txn = x.init("t")
    x.produce(t, 0, n=2, producer=txn, sequence=0, transactional_id="t", codec=3)
    txn = x.end("t", *txn, False, settle=True)
    x.produce(t, 0, n=2, producer=txn, sequence=0, transactional_id="t")
    x.end("t", *txn, True, settle=True)
    x.wait_until_stable(t, 0, 12)
    stored(x, t)
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.producers(t)


@family("core", ("producer", "uncompressed", "gzip", "zstd"))
def compression_type_and_sizes(x: Conversation, wanted: str) -> None:
    """max.message.bytes holds for what comes, and for what it becomes."""
    t = x.topic("a", compression_type=wanted, max_message_bytes=1000)
    for codec in (0, 1, 4):
        for size_bytes in (800, 5000):
            label = f" {CODECS[codec]} {size_bytes}"
            x.produce(t, 0, [b"v" * size_bytes], codec=codec, label=label)
    noise = bytes((index * index * 31 + index // 7) % 251 for index in range(925))
    x.produce(t, 0, [noise], label=" hardly compressible", quiet=True)
    small = x.topic("b", compression_type=wanted, segment_bytes=1_048_576, max_message_bytes=4_000_000)
    for codec in (0, 1):
        x.produce(small, 0, [b"v" * 2_000_000], codec=codec, label=f" above a segment {CODECS[codec]}")


@scenario("core")
def compression_type_is_changed(x: Conversation) -> None:
    """For what comes from then on; a level alone changes nothing that is stored."""
    t = x.topic("a")

    def until(codec: int, wanted: int) -> None:
        def there() -> Any:
            found = x.produce(t, 0, [b"v" * 200], codec=codec, quiet=True)
            data = x.fetch_partition(t, 0, found.base_offset).records
            return True if next(batches(data)).codec == wanted else None

        x.until(there)
        x.say("   from then on", CODECS[codec], "becomes", CODECS[wanted])

    until(0, 0)
    for value, wanted in (("gzip", 1), ("lz4", 3), ("snappy", 2), ("zstd", 4), ("uncompressed", 0)):
        x.say(f"to {value}", set_config(x, t, "compression.type", value))
        until(1 if value != "gzip" else 0, wanted)
    x.say("back", set_config(x, t, "compression.type", None))
    until(1, 1)


@scenario("core")
def compression_configs(x: Conversation) -> None:
    """What is taken, and what is shown."""
    t = x.topic("a")
    for key, values in {
        "compression.type": ("none", "GZIP", "", "gzip ", "brotli"),
        "compression.gzip.level": ("-1", "0", "1", "9", "10", "-2", "x", ""),
        "compression.lz4.level": ("-1", "0", "1", "17", "18"),
        "compression.zstd.level": ("-131072", "-131073", "0", "22", "23"),
    }.items():
        for value in values:
            x.say(f"{key}={value!r}", set_config(x, t, key, value))
            x.say("   the broker's", set_config(x, "", key, value, BROKER))
        set_config(x, "", key, None, BROKER)
        set_config(x, t, key, None)
    keys = ["compression.type", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level"]

    def shown(kind: int, name: str) -> dict[str, Any]:
        asked = [{"resource_type": kind, "resource_name": name, "configuration_keys": keys}]
        found = x.call("DescribeConfigs", 4, resources=asked, include_synonyms=True).results[0].configs
        return {str(each.name): each for each in found}

    x.until(lambda: True if all(each.config_source == 5 for each in shown(TOPIC, t).values()) else None)
    for kind, name in ((TOPIC, t), (BROKER, "1")):
        for key, found in sorted(shown(kind, name).items()):
            synonyms = [f"{each.name}={each.value}:{each.source}" for each in found.synonyms]
            x.say(key, found.value, f"source={found.config_source} type={found.config_type}", *synonyms)


@family("core", ("gzip", "zstd"))
def compression_type_of_the_broker(x: Conversation, wanted: str) -> None:
    """The broker's key holds for topics without one."""
    t, own = x.topic("a"), x.topic("b", compression_type="producer")
    x.say("set", set_config(x, "", "compression.type", wanted, BROKER))

    def there() -> Any:
        found = x.produce(t, 0, [b"v" * 200], quiet=True)
        batch = next(batches(x.fetch_partition(t, 0, found.base_offset).records))
        return True if CODECS[batch.codec] == wanted else None

    x.until(there)
    x.produce(own, 0, [b"v" * 200])
    x.fetch(own, 0, 0, READ_UNCOMMITTED, shows=False)
    stored(x, own)
    x.say("taken back", set_config(x, "", "compression.type", None, BROKER))


@family("core", range(4, 13))
def fetch_of_zstd(x: Conversation, v: int) -> None:
    """Fetch knows it from v10 on; it is the topic's key that counts, not what its batches are."""
    t, p = x.topic("a", compression_type="zstd"), x.topic("b")
    x.produce(t, 0, [b"v" * 200])
    x.produce(p, 0, [b"v" * 200], codec=4)
    for topic in (t, p):
        x.fetch(topic, 0, 0, READ_UNCOMMITTED, v=v, shows=False)


@family("core", (3, 6, 7, 12))
def produce_to_zstd(x: Conversation, v: int) -> None:
    t = x.topic("a", compression_type="zstd")
    for codec in (0, 1, 4):
        x.produce(t, 0, [b"v" * 200], codec=codec, v=v, label=f" {CODECS[codec]}")
