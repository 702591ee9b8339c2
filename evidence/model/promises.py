"""What must hold in every state, and in the last ones.

S4: one outcome for all of a transaction, the one that its producer asked for. S6: no sequence and no record twice.
S7: producer epochs never fall in a log. S8: no identity belongs to two producers. S11: an end is answered the same
however often it is asked. S14: a kept transaction keeps its identity, a two-phase one has no timeout (KIP-939).
L2: every transaction ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from evidence.model.coordinator import FIRST_PRODUCER_ID, timed_out
from evidence.model.leader import partition_of
from evidence.model.states import NO_IDENTITY, Client, Coordinator, Entry, Leader, Message, Rules, Tag, World
from oncelog.core.leader.partition import IsolationLevel
from oncelog.core.transactions.transaction import TransactionState, is_kept, is_two_phase

Outcomes = dict[Tag, set[bool]]


def outcomes(leaders: tuple[Leader, ...]) -> Outcomes:
    """What became of each transaction's records: the first marker behind a record decides it, for its producer id."""
    found: Outcomes = {}
    for leader in leaders:
        for position, entry in enumerate(leader.log):
            if entry.tag is not None:
                for marker in leader.log[position:]:
                    if marker.commit is not None and marker.identity[0] == entry.identity[0]:
                        found.setdefault(entry.tag, set()).add(marker.commit)
                        break
    return found


def broken_in_logs(leaders: tuple[Leader, ...], clients: tuple[Client, ...], rules: Rules) -> Iterator[str]:
    """S4, S6, and what the producers were told."""
    for tag, decided in outcomes(leaders).items():
        ended = clients[tag.client].transactions[tag.transaction]
        if len(decided) > 1:
            yield f"S4: transaction {tag} is committed in one place and aborted in another"
        if True in decided and ended.asked is not True:
            yield f"S4: transaction {tag} is committed, and nobody asked for it"
        if False in decided and ended.asked is True and (ended.is_acknowledged or rules.two_phase):
            yield f"S4: transaction {tag} is aborted, and its commit was promised"
    for leader in leaders:
        yield from _broken_in_log(leader.log, rules)


def _broken_in_log(log: tuple[Entry, ...], rules: Rules) -> Iterator[str]:
    records = [(entry.identity, entry.sequence) for entry in log if entry.commit is None]
    if len(set(records)) < len(records):
        yield "S6: a sequence stands twice in the log"
    tagged = [(entry.tag, entry.sequence) for entry in log if entry.commit is None]
    if len(set(tagged)) < len(tagged):
        yield "S6: a record stands twice in the log"
    highest: dict[int, int] = {}
    for entry in log:
        producer_id, producer_epoch = entry.identity
        if producer_epoch < highest.get(producer_id, -1):
            yield "S7: an older producer epoch stands behind a newer one"
        if entry.commit is not None:
            highest[producer_id] = max(highest.get(producer_id, -1), producer_epoch)


def broken_between(before: World, after: World, rules: Rules) -> Iterator[str]:
    """S8, S11, S14: what a step may not do."""
    identities = [client.identity for client in after.clients if client.identity != NO_IDENTITY]
    if len(set(identities)) < len(identities):
        yield f"S8: both producers hold {identities[0]}"
    answers: dict[tuple[int, int], tuple[bool, tuple[int, int]]] = {}
    for asked_by, commit, answered in after.promises:
        if answers.setdefault(asked_by, (commit, answered)) != (commit, answered) and rules.is_new:
            yield f"S11: EndTxn of {asked_by} was answered in two ways"
    old, new = before.coordinator.record, after.coordinator.record
    if rules.two_phase and old is not None and new is not None and old.state is TransactionState.ONGOING:
        is_same = (old.producer_id, old.producer_epoch) == (new.producer_id, new.producer_epoch)
        if new.state is TransactionState.ONGOING and is_kept(new) and not is_same:
            yield "S14: a keep-init changed the identity of the transaction that it keeps"
        if is_two_phase(old) and timed_out(before.coordinator, rules) is not None:
            yield "S14: a two-phase transaction has a timeout"


def broken_at_the_end(world: World, rules: Rules) -> Iterator[str]:
    """L2: nothing more can happen, every message has arrived, and every timeout has passed."""
    record = world.coordinator.record
    waits_for_its_owner = record is not None and record.state is TransactionState.ONGOING and is_two_phase(record)
    if record is not None and record.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT):
        yield f"L2: the transaction is still {record.state.name}"
    if record is not None and record.state is TransactionState.ONGOING and not waits_for_its_owner:
        yield "L2: the transaction is still open"
    for number, leader in enumerate(world.leaders):
        partition = partition_of(leader, rules)
        readable = partition.readable_to(IsolationLevel.READ_COMMITTED)
        if readable != len(leader.log) and not waits_for_its_owner:
            yield f"L2: partition {number} hangs: last stable offset {readable} of {len(leader.log)}"
        if waits_for_its_owner and readable != len(leader.log):
            open_ids = {(t.producer_id, t.producer_epoch) for t in partition.open_transactions()}
            assert record is not None
            if open_ids != {(record.producer_id, record.producer_epoch)}:
                yield f"L2: partition {number} hangs for another transaction than the prepared one"


def describe_log(leader: Leader) -> str:
    """One line, for a trace."""
    return " ".join(_entry(entry) for entry in leader.log) or "-"


def _entry(entry: Entry) -> str:
    name = f"{entry.identity[0] - FIRST_PRODUCER_ID}/{entry.identity[1]}"
    if entry.commit is not None:
        return f"[{'commit' if entry.commit else 'abort'} {name}]"
    assert entry.tag is not None
    return f"{'AB'[entry.tag.client]}{entry.tag.transaction}:{name}#{entry.sequence}"


def describe_message(message: Message) -> str:
    """One message in words, for a trace."""
    who = f"{'AB'[message.client]}{message.number} " if message.client >= 0 else ""
    parts = [message.kind.name.lower()]
    if message.partition >= 0:
        parts.append(f"p{message.partition}")
    if message.identity != NO_IDENTITY:
        parts.append(f"{message.identity[0] - FIRST_PRODUCER_ID}/{message.identity[1]}")
    if message.kind.name == "END":
        parts.append("commit" if message.commit else "abort")
    if message.markers is not None:
        parts.append("commit" if message.markers.commit else "abort")
        parts.append(f"epoch {message.markers.producer_epoch}")
    if message.error:
        parts.append(f"error {message.error}")
    return who + " ".join(parts) + (f" (copy {message.copy})" if message.copy else "")


def describe_coordinator(coordinator: Coordinator) -> str:
    """One line, for a trace."""
    record = coordinator.record
    waiting = " +" + ",".join(p.record.state.name for p in coordinator.pending) if coordinator.pending else ""
    if record is None:
        return "-" + waiting
    return f"{record.state.name} {record.producer_id - FIRST_PRODUCER_ID}/{record.producer_epoch}{waiting}"
