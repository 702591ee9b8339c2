"""Who did what: one line of the broker's log for each change that an operator may have to explain the next morning.

Deletions, settings, rights, quotas, and ends of transactions other than a commit: what was asked, by which client from
where, and what became of it. Where the client goes away before the answer, its handler goes on and what became of it is said
all the same: of `UNHEARD_MAX` at a time; beyond that, and of an InitProducerId, which may wait for others' markers, nothing is
known but what was asked. The broker's own requests are left out. Flooding is bounded: see `LogBudget`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Protocol

from oncelog.broker.requests.completion import finished
from oncelog.broker.requests.request import ANONYMOUS, CloseConnection, NoReply, Outcome, Reply, Request
from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.errors import code_name
from oncelog.types import ProducerIdAndEpoch
from oncelog.wire.api import ApiKey

_log = logging.getLogger("oncelog.deeds")
NAMED_MAX = 10
WHAT_LENGTH_MAX = 2_000  # characters
CLIENT_ID_LENGTH_MAX = VALUE_LENGTH_MAX = 256
UNHEARD_MAX = 20  # each keeps its request in memory, for which no connection counts any more
EVENTS = {ApiKey.INIT_PRODUCER_ID: "fence", ApiKey.END_TXN: "abort", ApiKey.WRITE_TXN_MARKERS: "markers"}
KINDS = {2: "topic", 4: "broker", 8: "logger", 16: "client-metrics", 32: "group"}


class Budget(Protocol):
    """How many lines may go to the log."""

    def take(self, now_s: float) -> int | None:
        """How many were left out before this one; None where this one is left out too."""
        ...


class Entries(Protocol):
    """Where each of them is kept, beside the log, and without its budget."""

    def add(
        self,
        event: str,
        what: str,
        *,
        transactional_id: str | None = None,
        producer: ProducerIdAndEpoch | None = None,
        outcome: str = "done",
        principal: str | None = None,
        client_id: str | None = None,
        address: str | None = None,
    ) -> None:
        """Remember one, at once."""
        ...


class Deeds:
    """Notes the outcome of requests that change something."""

    def __init__(self, budget: Budget, entries: Entries, metadata: ClusterMetadata) -> None:
        self._metadata = metadata
        self._budget = budget
        self._entries = entries
        self._unheard: set[Request] = set()  # whose clients have gone, and which go on

    def noted(self, request: Request, outcome: Outcome) -> Outcome:
        """The same outcome; once it is there, or nobody waits for it any more, its line goes to the log. For requests of
        `CHANGES`."""
        message = request.message
        is_usual = request.api_key is ApiKey.END_TXN and message.committed
        if is_usual or request.connection.is_of_broker or getattr(message, "validate_only", False):
            return outcome
        asked = self._named(message) if request.api_key is ApiKey.DELETE_TOPICS else message  # before they are gone
        return finished(
            request,
            outcome,
            partial(self._note, request, asked),
            partial(self._note_unanswered, request, asked),
            partial(self._goes_on, request),
        )

    def _goes_on(self, request: Request) -> bool:
        if request.api_key is ApiKey.INIT_PRODUCER_ID or len(self._unheard) >= UNHEARD_MAX:
            return False
        self._unheard.add(request)
        return True

    def _named(self, message: Any) -> Any:
        """Topics that were asked by their ids, with their names."""
        named = [each if each.name else each.replace(name=self._topic_name(each.topic_id)) for each in message.topics]
        return message.replace(topics=named)

    def _topic_name(self, topic_id: bytes) -> str | None:
        topic = self._metadata.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def _told(self, request: Request, asked: Any, reply: Any) -> Any:
        """The same for what was answered: a refusal, and who may not describe a topic, is not told its name."""
        if request.api_key is not ApiKey.DELETE_TOPICS:
            return reply
        known = {bytes(each.topic_id): each.name for each in asked.topics}
        told = [
            each if each.name else each.replace(name=known.get(bytes(each.topic_id)) or self._topic_name(each.topic_id))
            for each in reply.responses
        ]
        return reply.replace(responses=told)

    def transaction_aborted(self, request: Request, transactional_id: str, producer: ProducerIdAndEpoch) -> None:
        """An InitProducerId has aborted the open transaction of its id. It is told at once: its answer comes when the markers are
        written, and who has gone by then, or waits for a marker that is stuck, would be named nowhere."""
        connection = request.connection
        if connection.is_of_broker:
            return
        request.is_noted = True
        who = f"{transactional_id!r}, producer {producer.producer_id}:{producer.producer_epoch}"
        what = f"abort the transaction of {who}, by initialising its id anew"
        self._entries.add(
            "abort",
            what,
            transactional_id=transactional_id,
            producer=producer,
            principal=connection.principal,
            client_id=request.client_id,
            address=connection.client_host,
        )
        self._say(request, what, "done")

    def _note(self, request: Request, asked: Any, reply: Reply) -> Reply:
        self._unheard.discard(request)
        if isinstance(reply, CloseConnection | NoReply):
            return reply
        what = CHANGES[request.api_key](asked, self._told(request, asked, reply))
        if what:
            self._keep(request, reply, what, _codes(reply))
            self._say(request, what, _codes(reply))
        return reply

    def _note_unanswered(self, request: Request, asked: Any, why: str) -> None:
        self._unheard.discard(request)
        what = "" if request.is_noted else CHANGES[request.api_key](asked, None)
        if what:
            self._keep(request, None, what, why)
            self._say(request, what, why)

    def _say(self, request: Request, what: str, became: str) -> None:
        left_out = self._budget.take(asyncio.get_running_loop().time())
        if left_out is not None:
            more = f" ({left_out} lines of others were left out before)" if left_out else ""
            _log.info("%s, by %s: %s%s", cut(what), who_asked(request), became, more)

    def _keep(self, request: Request, reply: Reply | None, what: str, became: str) -> None:
        """Here what was asked comes from: commands of an operator and a producer's own are told apart by who."""
        is_transaction = request.api_key in (ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN)
        of: Any = reply if request.api_key is ApiKey.INIT_PRODUCER_ID else request.message
        self._entries.add(
            EVENTS.get(request.api_key, request.api_key.name.lower().replace("_", "-")),
            what,
            transactional_id=request.message.transactional_id if is_transaction else None,
            producer=ProducerIdAndEpoch(of.producer_id, of.producer_epoch) if is_transaction and of else None,
            outcome=became,
            principal=request.connection.principal,
            client_id=request.client_id,
            address=request.connection.client_host,
        )


def cut(text: str, length_max: int = WHAT_LENGTH_MAX) -> str:
    """The beginning of a text that came from a client: one request may hold a hundred megabytes of names and values."""
    return text if len(text) <= length_max else f"{text[:length_max]}... ({len(text)} characters)"


def who_asked(request: Request) -> str:
    """A client as the log names it."""
    client = f"client {cut(request.client_id, CLIENT_ID_LENGTH_MAX)!r} at {request.connection.client_host}"
    principal = request.connection.principal
    return client if principal == ANONYMOUS else f"{principal!r}, {client}"


def _codes(reply: Reply) -> str:
    """What became of it: every error code of the answer, once."""
    found = dict.fromkeys(_error_codes(reply))
    wrong = [code_name(code) for code in found if code]
    return ", ".join(wrong) + (" (and done in part)" if wrong and 0 in found else "") if wrong else "done"


def _error_codes(value: Any, depth: int = 0) -> Iterator[int]:
    code = getattr(value, "error_code", None)
    if code is not None:
        yield int(code)
    for name in ("responses", "results", "topics", "partitions", "entries", "filter_results", "markers"):
        for each in (getattr(value, name, None) or ()) if depth < 4 else ():
            yield from _error_codes(each, depth + 1)


def _names(verb: str, names: Iterable[object]) -> str:
    listed = [str(name) for name in names]
    return f"{verb} {', '.join(listed[:NAMED_MAX])}" + (
        f" and {len(listed) - NAMED_MAX} more" * (len(listed) > NAMED_MAX)
    )


def _topics_deleted(message: Any, reply: Any) -> str:
    """An id has no name where there is no such topic."""
    asked = message.topics if reply is None else reply.responses
    named = message.topic_names if reply is None else ()
    found = [repr(each.name) if each.name else f"id {bytes(each.topic_id).hex()}" for each in asked]
    return _names("delete topics", [*map(repr, named), *found])


def _configs(message: Any, _reply: Any) -> str:
    said = []
    for each in message.resources[:NAMED_MAX]:
        kind = KINDS.get(each.resource_type, each.resource_type)
        said.append(_names(f"change settings of {kind} {each.resource_name!r}:", map(_setting, each.configs)))
    return "; ".join(said)


def _setting(config: Any) -> str:
    is_deleted = getattr(config, "config_operation", 0) == 1 or config.value is None
    hidden = any(word in config.name for word in ("password", "secret", "jaas", "key"))
    value = "hidden" if hidden else repr(cut(config.value or "", VALUE_LENGTH_MAX))
    return f"{cut(config.name, VALUE_LENGTH_MAX)!r} {'deleted' if is_deleted else f'= {value}'}"


def _records_deleted(message: Any, _reply: Any) -> str:
    return _names(
        "delete records",
        [f"{t.name!r}-{p.partition_index} before {p.offset}" for t in message.topics for p in t.partitions],
    )


def _quotas(message: Any, _reply: Any) -> str:
    return _names(
        "change quotas",
        [
            "/".join(f"{e.entity_type!r} {e.entity_name!r}" for e in entry.entity)
            + " "
            + ", ".join(f"{op.key!r} {'deleted' if op.remove else op.value}" for op in entry.ops)
            for entry in message.entries
        ],
    )


def _markers(message: Any, _reply: Any) -> str:
    return _names(
        "write markers on single partitions:",
        [
            f"{'COMMIT' if m.transaction_result else 'ABORT'} of producer {m.producer_id}:{m.producer_epoch} on "
            + ",".join(f"{topic.name!r}-{index}" for topic in m.topics for index in topic.partition_indexes)
            for m in message.markers
        ],
    )


def _rules_removed(message: Any, reply: Any) -> str:
    if reply is None:
        asked = [f"{f.principal_filter!r} on {f.resource_name_filter!r}" for f in message.filters]
        return _names("remove all access rules like", asked)
    removed = [f"{a.principal!r} on {a.resource_name!r}" for f in reply.filter_results for a in f.matching_acls]
    return _names("remove access rules for", removed)


def _token_created(_message: Any, reply: Any) -> str:
    """Its id: the rest is secret."""
    if reply is None:
        return "create a delegation token"
    return f"create delegation token {reply.token_id!r} of {reply.principal_name!r}"


def _initialised(message: Any, reply: Any) -> str:
    """Only what may have ended something: the first epoch of an id fences nobody."""
    if reply is None and message.transactional_id:
        return f"initialise transactional id {message.transactional_id!r}"
    if not message.transactional_id or reply.error_code or reply.producer_epoch == 0:
        return ""
    now = f"producer {reply.producer_id}:{reply.producer_epoch}"
    return f"initialise transactional id {message.transactional_id!r}: {now}, lower epochs are fenced"


def _ended(message: Any, _reply: Any) -> str:
    return f"abort the transaction of {message.transactional_id!r}, producer {message.producer_id}:{message.producer_epoch}"


# Of the request and its answer; None: there is none.
CHANGES: dict[ApiKey, Callable[[Any, Any], str]] = {
    ApiKey.DELETE_TOPICS: _topics_deleted,
    ApiKey.CREATE_PARTITIONS: lambda m, _: _names("add partitions", [f"{t.name!r} to {t.count}" for t in m.topics]),
    ApiKey.DELETE_RECORDS: _records_deleted,
    ApiKey.ALTER_CONFIGS: _configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs,
    ApiKey.DELETE_GROUPS: lambda m, _: _names("delete groups", map(repr, m.groups_names)),
    ApiKey.OFFSET_DELETE: lambda m, _: _names(
        f"delete positions of group {m.group_id!r} in", [repr(t.name) for t in m.topics]
    ),
    ApiKey.UPDATE_FEATURES: lambda m, _: _names(
        "change features", [f"{f.feature!r} to {f.max_version_level}" for f in m.feature_updates]
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: _quotas,
    ApiKey.CREATE_ACLS: lambda m, _: _names(
        "add access rules for", [f"{c.principal!r} on {c.resource_name!r}" for c in m.creations]
    ),
    ApiKey.DELETE_ACLS: _rules_removed,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda m, _: _names(
        "change credentials of", [repr(each.name) for each in (*m.deletions, *m.upsertions)]
    ),
    ApiKey.CREATE_DELEGATION_TOKEN: _token_created,
    ApiKey.RENEW_DELEGATION_TOKEN: lambda _, r: (
        "renew a delegation token" + (f" until {r.expiry_timestamp_ms}" if r else "")
    ),
    ApiKey.EXPIRE_DELEGATION_TOKEN: lambda _, r: (
        "end a delegation token" + (f" at {r.expiry_timestamp_ms}" if r else "")
    ),
    ApiKey.WRITE_TXN_MARKERS: _markers,
    ApiKey.INIT_PRODUCER_ID: _initialised,
    ApiKey.END_TXN: _ended,
}
