"""`oncelog consume`: from where, to where, in which form, as whom."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.cli.commands import consume
from oncelog.client.records import ConsumerRecord
from oncelog.core.access.authorizer import STANDARD_AUTHORIZER
from oncelog.testing import TestBroker
from oncelog.types import OffsetAndMetadata, TopicPartition
from tests.cli.world import Cli, cli_as


@pytest.fixture(scope="module")
def topic(cli: Cli) -> str:
    """Partition 0: v0..v4 at offsets 0..4, then two aborted records and a marker; partition 1: w0."""
    cli.create("consume", 2)
    cli("produce", "consume", "-p", 0, "-K", ":", stdin="".join(f"k{n}:v{n}\n" for n in range(5)))
    cli("produce", "consume", "-p", 0, "--transactional-id", "consume", "--abort", stdin="x\ny\n")
    cli("produce", "consume", "-p", 1, stdin="w0\n")
    return "consume"


def lines(cli: Cli, *arguments: object) -> list[str]:
    return sorted(cli("consume", *arguments, "-e").stdout.splitlines())


def test_values_as_lines(cli: Cli, topic: str) -> None:
    assert lines(cli, topic) == ["v0", "v1", "v2", "v3", "v4", "w0"]
    assert lines(cli, "consume:1") == ["w0"]
    assert lines(cli, topic, "--isolation", "read_uncommitted") == ["v0", "v1", "v2", "v3", "v4", "w0", "x", "y"]


def test_a_form_of_ones_own(cli: Cli, topic: str) -> None:
    assert lines(cli, "consume:0", "-f", r"%t [%p] %o %k %s\n", "--to", 2) == [
        "consume [0] 0 k0 v0",
        "consume [0] 1 k1 v1",
    ]
    assert cli("consume", "consume:0", "-e", "-f", "%k;", "-c", 3).stdout == "k0;k1;k2;"


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("earliest", ["v0", "v1", "v2", "v3", "v4"]),
        ("latest", []),
        ("3", ["v3", "v4"]),
        ("-5", ["v3", "v4"]),
        ("-99", ["v0", "v1", "v2", "v3", "v4"]),
        ("@2020-01-01", ["v0", "v1", "v2", "v3", "v4"]),
        ("@2100-01-01T00:00:00Z", []),
        ("99", []),
        ("by_duration:PT1H", ["v0", "v1", "v2", "v3", "v4"]),
        ("by_duration:PT0S", []),
    ],
)
def test_from_where(cli: Cli, topic: str, where: str, expected: list[str]) -> None:
    assert lines(cli, "consume:0", "--from", where) == expected


def test_rows_for_machines(cli: Cli, topic: str) -> None:
    row = cli.json("consume", "consume:0", "-c", 1)[0]
    timestamp_ms = row.pop("timestamp_ms")
    assert timestamp_ms > 1_700_000_000_000
    assert row == {
        "topic": "consume",
        "partition": 0,
        "offset": 0,
        "timestamp_type": "CreateTime",
        "key": "k0",
        "value": "v0",
        "headers": [],
    }


def test_an_open_transaction_ends_what_is_committed(cli: Cli) -> None:
    cli.create("consume-open")
    cli("produce", "consume-open", stdin="before\n")
    cli.leave_open("consume-open", "consume-open")
    cli("produce", "consume-open", stdin="after\n")
    assert lines(cli, "consume-open") == ["before"]


def test_a_group_goes_on_where_it_stopped(cli: Cli, topic: str) -> None:
    group = ("--group", "consume-group", "-e")
    first = cli("consume", topic, *group, "-c", 2).stdout.splitlines()
    second = cli("consume", topic, *group).stdout.splitlines()
    assert sorted(first + second) == ["v0", "v1", "v2", "v3", "v4", "w0"]
    assert len(first) == 2
    assert cli("consume", topic, *group).stdout == ""
    assert sum(row["lag"] for row in cli.json("groups", "describe", "consume-group")) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("consume:x",),
        ("consume", "--from", "somewhere"),
        ("consume", "--from", "@someday"),
        ("consume", "--from", "by_duration:1h"),
        ("consume", "--group", "g", "--from", "by_duration:soon"),
        ("consume", "-f", "%x"),
        ("consume", "-f", "%s", "-o", "json"),
        ("consume:0", "--group", "g"),
        ("consume", "--group", "g", "--from", "3"),
        ("consume", "--group", "g", "--to", 3),
        ("consume", "--from", 5, "--to", 2),
        ("consume", "--from", 2, "--to", 2),
        ("consume", "--from", "@3000", "--to", "@1500"),
    ],
    ids=str,
)
def test_wrong_usage(cli: Cli, topic: str, arguments: tuple[object, ...]) -> None:
    assert cli("consume", *arguments, "-e", status=2).stdout == ""


def test_a_partition_that_is_not_there(cli: Cli, topic: str) -> None:
    assert "has partitions 0 to 1, not 5" in cli("consume", "consume:0,5", "-e", status=1).stderr


def test_an_unknown_setting_is_refused_with_the_nearest_name_of_any_client(cli: Cli, topic: str) -> None:
    refused = cli("consume", topic, "-e", "-X", "ordr=transaction", status=2)
    assert "-X: unknown option 'ordr'; did you mean 'order'?" in refused.stderr
    refused = cli("consume", topic, "-e", "-X", "linger.mss=1", status=2)
    assert "did you mean 'linger.ms'?" in refused.stderr


def test_an_unknown_setting_of_a_file_is_refused_with_the_files_name(
    cli: Cli, topic: str, tmp_path: pathlib.Path
) -> None:
    settings = tmp_path / "client.properties"
    settings.write_text("linger.mss=1\n")
    refused = cli("--command-config", settings, "consume", topic, "-e", status=2)
    assert f"{settings}: unknown option 'linger.mss'; did you mean 'linger.ms'?" in refused.stderr


def test_a_range_of_time(cli: Cli) -> None:
    cli.create("ranged", 2)
    for partition, times in ((0, (1_000, 2_000, 3_000)), (1, (1_500,))):
        lines = "".join(json.dumps({"value": str(at), "timestamp_ms": at}) + "\n" for at in times)
        cli("produce", "ranged", "-p", partition, "--json", stdin=lines)
    got = cli("consume", "ranged", "--from", "@1500", "--to", "@3000").stdout.split()
    assert sorted(got) == ["1500", "2000"]
    assert cli("consume", "ranged", "--to", "@1970-01-01T00:00:01Z").stdout == ""
    assert cli("consume", "ranged:0", "--to", 2).stdout.split() == ["1000", "2000"]
    for wrong in ("@", "@yesterday", "later", "-1", "@99999999999999999999"):
        cli("consume", "ranged", "--to", wrong, status=2)


@pytest.mark.parametrize("more", [(), ("-g", "consume-quota-group")])
def test_a_reader_that_gets_nothing_for_its_quota_is_told_so(cli: Cli, more: tuple[str, ...]) -> None:
    """The partition is well: to look for offline ones would be in vain."""
    cli.create("consume-quota")
    cli("produce", "consume-quota", stdin=f"{'x' * 5000}\n")
    cli("quotas", "set", "--client-id", "consume-slow", "consumer_byte_rate=1", "-y")
    try:
        arguments = ("consume", "consume-quota", "-e", *more, "-X", "client.id=consume-slow", "--timeout", "1500ms")
        result = cli(*arguments, status=1)
    finally:
        cli("quotas", "delete", "--client-id", "consume-slow", "consumer_byte_rate", "-y")
        cli("topics", "delete", "consume-quota", "-y")
    assert "nothing came for 1.5s: consume-quota-0 at 0 of 1: a quota holds it up" in result.stderr
    assert "told it to wait for 11s meanwhile" in result.stderr
    assert f"oncelog -b {cli.bootstrap_servers} quotas list" in result.stderr
    assert "offline" not in result.stderr


def test_from_behind_the_end_says_so_and_shows_nothing_else(cli: Cli) -> None:
    cli.create("short")
    cli("produce", "short", stdin="one\ntwo\n")
    told = cli("consume", "short", "-e", "--from", 99999)
    assert (told.stdout, told.stderr) == ("", "note: --from 99999 is behind the end of short-0 (2)\n")
    assert cli("consume", "short", "-e", "--from", 2).stderr == "", "the end itself is where the next one comes"


def test_what_comes_at_an_offset_behind_the_end_is_shown_and_nothing_before_it(cli: Cli) -> None:
    cli.create("grows")
    cli("produce", "grows", stdin="0\n1\n")
    words = ("consume", "grows", "--from", "4", "-c", "1")
    with subprocess.Popen(
        [sys.executable, "-m", "oncelog", "-b", cli.bootstrap_servers, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as reading:
        assert reading.stderr is not None
        assert reading.stderr.readline() == "note: --from 4 is behind the end of grows-0 (2)\n"
        cli("produce", "grows", stdin="2\n3\n4\n5\n")
        assert reading.communicate(timeout=30)[0] == "4\n"


@contextmanager
def reading(cli: Cli, *words: str) -> Iterator[subprocess.Popen[str]]:
    """`oncelog consume`, which hears of changes soon."""
    command = [sys.executable, "-m", "oncelog", "-b", cli.bootstrap_servers, "-X", "metadata.max.age.ms=100", "consume"]
    with subprocess.Popen([*command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def test_partitions_that_come_later_are_read_from_their_start(cli: Cli) -> None:
    cli.create("wider")
    cli("produce", "wider", stdin="old\nfirst\n")
    with reading(cli, "wider", "--from", "1", "-c", "3") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "first\n"
        cli("topics", "add-partitions", "wider", "--total", 2, "-y")
        cli("produce", "wider", "-p", 1, stdin="of the new one\n")
        assert process.stdout.readline() == "of the new one\n"
        cli("produce", "wider", "-p", 0, stdin="of the old one\n")
        assert process.communicate(timeout=30) == ("of the old one\n", "")


def test_partitions_that_come_later_end_where_it_was_said(cli: Cli) -> None:
    cli.create("wider-to")
    with reading(cli, "wider-to", "--to", "1") as process:
        assert process.stdout is not None
        cli("topics", "add-partitions", "wider-to", "--total", 2, "-y")
        cli("produce", "wider-to", "-p", 1, stdin="new\nbehind\n")
        assert process.stdout.readline() == "new\n"
        cli("produce", "wider-to", "-p", 0, stdin="old\nbehind\n")
        assert process.communicate(timeout=30) == ("old\n", "")
        assert process.returncode == 0


@pytest.mark.parametrize("start", ["3", "-2"])
def test_a_topic_that_is_made_again_is_read_whole(cli: Cli, start: str) -> None:
    name = f"again{start}"
    cli.create(name, 3)
    cli("produce", name, "-p", 0, stdin="0\n1\n2\n3\n4\n")
    with reading(cli, name, "--from", start, "-c", "5") as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["3\n", "4\n"]
        cli("topics", "delete", name, "-y")
        cli.create(name, 4)
        for partition in (0, 2, 3):
            cli("produce", name, "-p", partition, stdin=f"new {partition}\n")
        assert sorted(process.communicate(timeout=30)[0].splitlines()) == ["new 0", "new 2", "new 3"]


def test_a_partition_that_a_topic_lost_when_it_was_made_again_is_named(cli: Cli) -> None:
    cli.create("narrower", 2)
    cli("produce", "narrower", "-p", 1, stdin="one\n")
    with reading(cli, "narrower:1") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "one\n"
        cli("topics", "delete", "narrower", "-y")
        cli.create("narrower", 1)
        assert "'narrower' was deleted and made again without narrower-1" in process.communicate(timeout=30)[1]
        assert process.returncode == 1


def test_a_member_goes_on_when_its_topic_is_made_again_before_it_stores_its_position(cli: Cli) -> None:
    """It stands in the midst of writing, as nobody reads, and commits a place in a topic that is not there any more."""
    cli.create("anew")
    count = 3000
    cli("produce", "anew", stdin="".join(f"{'x' * 95} {number}\n" for number in range(count)))
    with reading(cli, "anew", "--group", "anew-group", "-c", str(count + 1)) as process:
        assert process.stdout is not None
        assert process.stdout.readline().endswith(" 0\n")
        cli("topics", "delete", "anew", "-y")
        cli.create("anew")
        cli("produce", "anew", stdin="new\n")
        out, err = process.communicate(timeout=30)
        assert out.splitlines()[-1] == "new", err
        assert process.returncode == 0
    assert [row["lag"] for row in cli.json("groups", "describe", "anew-group")] == [0]


@pytest.mark.parametrize("form", ["table", "jsonl"])
def test_a_member_whose_output_is_a_full_disk_stores_what_came_out_whole(
    cli: Cli, tmp_path: pathlib.Path, form: str
) -> None:
    name = cli.create(f"full-disk-{form}")
    cli("produce", name, stdin="".join(f"{'x' * 95} {number}\n" for number in range(1000)))
    arguments = ["consume", name, "--group", name, "-e", "-o", form]
    size_bytes = 30_000  # in the midst of the second batch
    with (tmp_path / "out").open("wb") as out:
        ended = subprocess.run(
            [sys.executable, "-m", "oncelog", "-b", cli.bootstrap_servers, *arguments],
            stdout=out,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},  # those files would be cut off, too
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, size_bytes)),
            check=False,
        )
    assert ended.returncode == 1, ended.stderr
    *whole, torn = (tmp_path / "out").read_text().splitlines()
    rest = cli(*arguments).stdout.splitlines()
    assert len(whole) + len(rest) == 1000
    assert rest[0].startswith(torn)


def test_a_member_that_a_signal_ends_says_nothing_of_a_topic_that_was_made_again(cli: Cli) -> None:
    cli.create("gone-out")
    cli("produce", "gone-out", stdin="".join(f"{'x' * 95} {number}\n" for number in range(3000)))
    with reading(cli, "gone-out", "--group", "gone-out-group") as process:
        assert process.stdout is not None
        assert process.stdout.readline().endswith(" 0\n")
        cli("topics", "delete", "gone-out", "-y")
        cli.create("gone-out")
        cli("produce", "gone-out", stdin="new\n")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
        assert "reads again" not in err, "nothing of what came out is there"
    assert cli("consume", "gone-out", "--group", "gone-out-group", "-e").stdout == "new\n"


def test_what_is_out_is_stored_in_the_topic_that_it_was_read_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name may be another topic's at a signal, and the client knows of it."""
    where, ids = TopicPartition("t", 0), [b"1" * 16, b"2" * 16]
    stored: list[tuple[TopicPartition, int, bytes | None]] = []

    class Member:
        def current_positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
            return {where: OffsetAndMetadata(7, topic_id=ids.pop(0))}

        async def commit(self, positions: dict[TopicPartition, OffsetAndMetadata]) -> None:
            stored.extend((at, each.offset, each.topic_id) for at, each in positions.items())

    given = iter((0, 10))
    monkeypatch.setattr(consume, "given_to_stdout", lambda: next(given))
    monkeypatch.setattr(consume, "out_of_stdout", lambda: 10)
    settings: Any = SimpleNamespace(timeout_ms=60_000, out=SimpleNamespace(flush=lambda: None))
    member: Any = Member()
    record = ConsumerRecord("t", 0, 4, -1, 0, None, b"v", ())

    async def work() -> None:
        with pytest.raises(KeyboardInterrupt):
            async with consume._stored_as_far_as_out(settings, member) as emitted:
                emitted(record, lambda _: None)
                raise KeyboardInterrupt

    asyncio.run(work())
    assert stored == [(where, 5, b"1" * 16)]


@pytest.mark.parametrize("words", ["-e", "--to @2100-01-01", "-e --group {}-group"])
def test_an_end_in_a_topic_that_is_made_again_is_given_up_at_once(cli: Cli, words: str) -> None:
    """It stands in the midst of writing, as nobody reads, and most is still to be fetched."""
    name = f"ends{words[-6:].strip(' @{}')}"
    cli.create(name)
    cli("produce", name, stdin="".join(f"{'x' * 95} {number}\n" for number in range(3000)))
    own = ["-X", "max.partition.fetch.bytes=1000", "--timeout", "1h"]
    with reading(cli, name, *words.format(name).split(), *own) as process:
        assert process.stdout is not None
        assert process.stdout.readline().endswith(" 0\n")
        cli("topics", "delete", name, "-y")
        cli.create(name)
        cli("produce", name, stdin="new\n")
        out, err = process.communicate(timeout=30)
        assert "new" not in out
        assert err.splitlines()[-1] == (
            f"error: topic {name!r} was deleted and made again: what it had up to the end as it was at the start is gone "
            "(the same command again reads the new one)"
        )
        assert process.returncode == 1


def test_who_may_not_read_is_told_every_right_that_it_takes_at_once(tmp_path: pathlib.Path) -> None:
    """Describe was named first, then read, then read of the group: one more try for each."""
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:root"}
    users = {"root": "r", "bob": "b"}
    with TestBroker(config, security="SASL_PLAINTEXT", mechanism="PLAIN", users=users) as broker:
        bob, root = cli_as(broker, "bob", tmp_path), cli_as(broker, "root", tmp_path)
        root.create("secret")
        root("produce", "secret", stdin="one\n")
        read = "oncelog acls add --{0} {1} --principal User:bob --operation read"
        alone = bob("consume", "secret", "-e", status=1).stderr
        assert read.format("topic", "secret") in alone
        assert "describe" not in alone
        told = bob("consume", "secret", "-e", "-g", "his", status=1).stderr
        assert read.format("topic", "secret") in told
        assert read.format("group", "his") in told
        empty = bob("produce", "secret", stdin="", status=1).stderr
        assert "--operation write" in empty
        for option, name in (("--topic", "secret"), ("--group", "his")):
            root("acls", "add", option, name, "--principal", "User:bob", "--operation", "read", "-y")
        assert bob("consume", "secret", "-e").stdout == "one\n"
        assert bob("consume", "secret", "-e", "-g", "his").stdout == "one\n"
