"""transaction.version up and down, while transactions are open (kafka-notes C22-C24).

These brokers are not used for anything else.
"""

from __future__ import annotations

from typing import Any

from evidence.differential.conversation import READ_COMMITTED, Conversation, error_name
from evidence.differential.scenario import family, scenario
from evidence.differential.stories import begin

UPGRADE, DOWNGRADE = 1, 2


def level(x: Conversation, wanted: int) -> None:
    """Set transaction.version and wait until the broker says so; one line."""
    present = finalized(x)
    if wanted != present:
        kind = UPGRADE if wanted > present else DOWNGRADE
        change = {"feature": "transaction.version", "max_version_level": wanted, "upgrade_type": kind}
        code = x.call("UpdateFeatures", 1, feature_updates=[change]).error_code
        assert code == 0, error_name(code)
        x.until(lambda: True if finalized(x) == wanted else None)
        x.pause(0.2)
    x.say(f"# transaction.version {wanted}")


def finalized(x: Conversation) -> int:
    client = {"client_software_name": "differential", "client_software_version": "1.0"}
    found = {each.name: each.max_version_level for each in x.call("ApiVersions", 4, **client).finalized_features}
    return int(found.get("transaction.version", 0))


@scenario("levels")
def level_0_serves_old_clients(x: Conversation) -> None:
    level(x, 0)
    t = x.topic("a")
    pid, e = begin(x, t, 4)
    x.end("t", pid, e, True, v=4, settle=True)
    x.add("t", pid, e, [(t, [0])])
    x.produce(t, 0, n=1, producer=(pid, e), sequence=1, transactional_id="t", v=11)
    x.init("t", v=4, label=" a newer instance")
    x.wait_until_stable(t, 0, 4)
    x.fetch(t, 0, 0, READ_COMMITTED)
    level(x, 2)


@scenario("levels")
def level_0_and_the_new_protocol(x: Conversation) -> None:
    """kafka-notes C22: 35, and the id must stay usable."""
    level(x, 0)
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t", label=" implicit add")
    pid, e = x.init("u")
    x.end("u", pid, e, False, label=" empty abort")
    level(x, 2)
    x.init("t", wait=False)
    x.init("u", wait=False)


@scenario("levels")
def level_1_has_the_new_protocol_too(x: Conversation) -> None:
    """kafka-notes C23: implicit add and the bump work at level 1."""
    level(x, 1)
    t = x.topic("a")
    pid, e = begin(x, t, 5)
    x.end("t", pid, e, True, settle=True)
    x.wait_until_stable(t, 0, 2)
    x.fetch(t, 0, 0, READ_COMMITTED)
    level(x, 2)


@scenario("levels")
def level_changes_under_an_open_transaction(x: Conversation) -> None:
    """2, 1, 2 with a transaction of each protocol open is harmless."""
    level(x, 2)
    t = x.topic("a")
    new = begin(x, t, 5)
    old = x.init("u", v=4)
    x.add("u", *old, [(t, [0])])
    x.produce(t, 0, n=1, producer=old, sequence=0, transactional_id="u", v=11)
    level(x, 1)
    x.produce(t, 0, n=1, producer=new, sequence=1, transactional_id="t")
    x.produce(t, 0, n=1, producer=old, sequence=1, transactional_id="u", v=11)
    level(x, 2)
    x.end("t", *new, True, settle=True)
    x.end("u", *old, False, v=4, settle=True)
    x.wait_until_stable(t, 0, 6)
    x.fetch(t, 0, 0, READ_COMMITTED)


@scenario("levels")
def level_goes_down_to_0_under_transactions(x: Conversation) -> None:
    """kafka-notes C23: what the new protocol left behind must stay usable."""
    level(x, 2)
    t = x.topic("a")
    new = begin(x, t, 5)
    done = x.init("u")
    x.produce(t, 0, n=1, producer=done, sequence=0, transactional_id="u")
    done = x.end("u", *done, True, settle=True)
    level(x, 0)
    x.end("t", *new, True, v=4, settle=True)
    x.init("u", wait=False, label=" an id of the new protocol")
    x.init("t", wait=False, label=" an id of the new protocol")
    level(x, 2)
    x.init("u", wait=False)


@scenario("levels")
def level_goes_up_under_an_old_client(x: Conversation) -> None:
    """The old client goes on; after its end a new client begins with a bump (KAFKA-18227)."""
    level(x, 1)
    t = x.topic("a")
    pid, e = begin(x, t, 4)
    level(x, 2)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=1, transactional_id="t", v=11)
    x.end("t", pid, e, True, v=4, settle=True)
    pid, e = x.init("t", pid, e, label=" the client upgrades")
    begin(x, t, 5, producer=(pid, e))
    x.end("t", pid, e, True, settle=True)
    x.wait_until_stable(t, 0, 5)
    x.fetch(t, 0, 0, READ_COMMITTED)


@scenario("levels")
def level_changes_are_told_by_a_growing_epoch(x: Conversation) -> None:
    client = {"client_software_name": "differential", "client_software_version": "1.0"}

    def told() -> Any:
        return x.call("ApiVersions", 4, **client).finalized_features_epoch

    before = told()
    level(x, 1)
    middle = told()
    level(x, 2)
    x.say("the epoch grows", before < middle < told())


@family("levels", range(3))
def level_and_a_timeout(x: Conversation, wanted: int) -> None:
    """What EndTxn v5 and InitProducerId answer to the epoch before a timeout."""
    level(x, wanted)
    t = x.topic("a")
    for v, name in ((5, "t"), (4, "u")):
        pid, e = x.init(name, v=v, timeout=100)
        x.add(name, pid, e, [(t, [0])])
        x.settle(name)
        x.pause(0.2)
        for commit in (True, False):
            x.end(name, pid, e, commit, label=" the epoch before")
            x.end(name, pid, e, commit, v=4, label=" the epoch before")
        x.init(name, pid, e, v=4, label=" the epoch before", wait=False)
    level(x, 2)


@family("levels", range(3))
def level_and_an_older_end(x: Conversation, wanted: int) -> None:
    """The transaction of an older client is over; EndTxn v5 comes with the epoch before, which never wrote to it."""
    level(x, wanted)
    t = x.topic("a")
    pid, e = x.init("t", v=4)
    pid, e = x.init("t", pid, e, v=4)
    x.add("t", pid, e, [(t, [0])])
    x.end("t", pid, e, True, v=4, settle=True)
    x.pause(0.2)
    for commit in (True, False):
        x.end("t", pid, e - 1, commit, label=" the epoch before")
    level(x, 2)
