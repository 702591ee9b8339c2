"""`oncelog why` of a share group (KIP-932): what holds back a reader that shares records out, and what does not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from oncelog import sync
from tests.cli.why.test_why import NOW, kinds, why
from tests.cli.world import Cli


@contextlib.contextmanager
def sharing(cli: Cli, group: str, topic: str, isolation: str, expected_count: int) -> Iterator[sync.ShareConsumer]:
    """A member that is done with so many records, all that it is given."""
    cli(*("configs", "set", "--group", group, "share.auto.offset.reset=earliest", f"share.isolation.level={isolation}"))
    with sync.ShareConsumer(topic, group_id=group, bootstrap_servers=cli.bootstrap_servers) as consumer:
        count = 0
        while count < expected_count:
            count += len(consumer.poll(30_000))
        assert consumer.commit() == {}
        yield consumer


def test_a_group_that_is_done_with_all_is_free(cli: Cli) -> None:
    """Also where its stored position lies behind: what was done with since is not to be done again."""
    cli.create("share-done")
    cli("produce", "share-done", stdin="a\nb\n")
    with sharing(cli, "share-done-group", "share-done", "read_uncommitted", 2):
        found = why(cli, "share-done-group", *NOW)
        assert (found["type"], found["verdict"], found["causes"], found["lag"]) == ("group", "free", [], 0)
        assert (found["group_state"], found["member_count"]) == ("Stable", 1)


def test_what_reads_committed_is_held_back_by_an_open_transaction(cli: Cli) -> None:
    cli.create("share-frozen")
    cli("produce", "share-frozen", stdin="a\n")
    with sharing(cli, "share-frozen-group", "share-frozen", "read_committed", 1):
        cli.leave_open("share-frozen", "share-frozen-app")
        found = why(cli, "share-frozen-group", *NOW, "--exit-code", status=3)
    assert kinds(found) == ["open transaction"]
    (cause,) = found["causes"]
    assert (cause["transactional_id"], cause["blocked"], found["lag"]) == ("share-frozen-app", 3, 0)
    assert found["notes"] == []


def test_what_reads_uncommitted_is_not_and_is_told_so(cli: Cli) -> None:
    cli.create("share-dirty")
    cli.leave_open("share-dirty", "share-dirty-app")
    with sharing(cli, "share-dirty-group", "share-dirty", "read_uncommitted", 3):
        found = why(cli, "share-dirty-group", *NOW)
    assert (found["verdict"], found["blocked"]) == ("free", 0)
    assert any("reads uncommitted records, too (share.isolation.level)" in note for note in found["notes"])


def test_records_that_nobody_reads_are_told(cli: Cli) -> None:
    cli.create("share-left")
    cli("produce", "share-left", stdin="a\n")
    with sharing(cli, "share-left-group", "share-left", "read_committed", 1):
        pass
    found = why(cli, "share-left-group")
    assert (found["causes"], found["member_count"]) == ([], 0)
    cli("produce", "share-left", stdin="b\nc\n")
    found = why(cli, "share-left-group", status=0)
    assert kinds(found) == ["no members"]
    assert "2 offsets of 1 partition wait" in found["causes"][0]["what"]
