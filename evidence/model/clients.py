"""The two producers: what they may ask next, and what an answer means to them.

They are simpler than `core.transaction_manager` on purpose: one request at a time, sent again whenever they like (a retry
that overtakes, or is overtaken by, the first one is what the protocol must survive).
"""

from __future__ import annotations

from functools import cache

from evidence.model.states import NO_IDENTITY, Client, Ended, Identity, Kind, Message, Rules, Tag
from oncelog.errors import ErrorCode

E = ErrorCode
RETRIABLE = frozenset(
    {E.CONCURRENT_TRANSACTIONS, E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_ENOUGH_REPLICAS, E.REQUEST_TIMED_OUT}
)


@cache
def requests(index: int, client: Client, stored: Identity, rules: Rules) -> tuple[Message, ...]:
    """What it may send now."""
    if client.is_dead:
        return ()
    if client.request is not None:
        return (client.request,)
    number = client.request_count
    if client.identity == NO_IDENTITY:
        return (Message(Kind.INIT, index, number, keep=rules.two_phase and (rules.always_keeps or index == 1)),)
    if client.kept != NO_IDENTITY:
        # KIP-939: the database knows whether the transaction that was taken over is to be committed.
        return (Message(Kind.END, index, number, identity=client.identity, commit=stored == client.kept),)
    return (*_writes(index, client, stored, rules), *_ends(index, client, stored, rules))


def _writes(index: int, client: Client, stored: Identity, rules: Rules) -> tuple[Message, ...]:
    partition = len(client.produced)
    if client.must_abort or partition >= rules.partition_count or _is_prepared(client, stored, rules):
        return ()
    if not rules.is_new and partition not in client.added:
        return (Message(Kind.ADD, index, client.request_count, partition, client.identity),)
    tag = Tag(index, len(client.transactions) - 1)
    sequence = client.sequences[partition]
    return (Message(Kind.PRODUCE, index, client.request_count, partition, client.identity, sequence, tag=tag),)


def _ends(index: int, client: Client, stored: Identity, rules: Rules) -> tuple[Message, ...]:
    end = Message(Kind.END, index, client.request_count, identity=client.identity)
    if client.must_abort:
        return (end,)
    if not client.produced:
        return ()
    if rules.two_phase:
        return (end._replace(commit=True),) if _is_prepared(client, stored, rules) else (end,)
    return (end._replace(commit=True), end)


def _is_prepared(client: Client, stored: Identity, rules: Rules) -> bool:
    """Once the database holds the state, the transaction may only be committed."""
    return rules.two_phase and client.transactions[-1].asked is True


def sending(client: Client, message: Message) -> Client:
    """It sent a request, for the first time or again."""
    if client.request is not None:
        return client
    after = client._replace(request=message, request_count=client.request_count + 1)
    if message.kind is Kind.END and client.kept == NO_IDENTITY:
        after = after._replace(transactions=(*client.transactions[:-1], Ended(asked=message.commit)))
    return after


@cache
def answered(client: Client, reply: Message, rules: Rules) -> Client:
    """It got an answer; one to an earlier request is not read."""
    request = client.request
    if client.is_dead or request is None or request.number != reply.number or reply.error in RETRIABLE:
        return client
    after = client._replace(request=None)
    if reply.error == E.TRANSACTION_ABORTABLE:
        return after._replace(must_abort=True)
    if reply.error:
        return after._replace(is_dead=True)
    if request.kind is Kind.INIT:
        return after._replace(identity=reply.identity, kept=reply.ongoing)
    if request.kind is Kind.ADD:
        return after._replace(added=client.added | {request.partition})
    if request.kind is Kind.PRODUCE:
        sequences = list(client.sequences)
        sequences[request.partition] += 1
        return after._replace(produced=(*client.produced, request.partition), sequences=tuple(sequences))
    return _ended(after, reply, rules)


def _ended(client: Client, reply: Message, rules: Rules) -> Client:
    identity = reply.identity if rules.is_new else client.identity
    client = client._replace(
        identity=identity,
        must_abort=False,
        added=frozenset(),
        produced=(),
        sequences=client.sequences if identity == client.identity else (0,) * len(client.sequences),
    )
    if client.kept != NO_IDENTITY:
        return client._replace(kept=NO_IDENTITY)
    transactions = (*client.transactions[:-1], client.transactions[-1]._replace(is_acknowledged=True))
    if len(transactions) == rules.transactions_max:
        return client._replace(transactions=transactions, is_dead=True)
    return client._replace(transactions=(*transactions, Ended()))
