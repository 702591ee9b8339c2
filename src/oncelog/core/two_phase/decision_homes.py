"""Where a query of the sink keeps its decisions, as its transactional ids say it: eight hex digits, a topic's or a database's.

Who finds a transaction open and no decision of it has looked everywhere only if that is the place where its query decides. A
database is not known by its URL, which has a password and many spellings, but by an identity that it keeps itself. Ids keep
their form, so that an earlier oncelog sweeps them, too: a stream's has them at the start of its process's name, which is a
UUID of version 8 then (4 without), a batch write's before the number of its task's attempt.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from oncelog.core.shell_words import quoted

TOPIC, DATABASE = "1", "2"  # the first digit
HOME_DIGITS = 8
ATTEMPT_DIGITS = 20  # of a task's attempt, where a home is before it; Spark's are at most 19
NOT_SAID = ""


def topic_home(topic: str) -> str:
    """Of a query with its decisions in a topic, which lies beside its transactions: the name says all."""
    return _home(TOPIC, topic)


def database_home(identity: str) -> str:
    """Of a query with its decisions in a database that has this identity."""
    return _home(DATABASE, identity)


def _home(kind: str, identity: str) -> str:
    return kind + hashlib.sha256(identity.encode()).hexdigest()[: HOME_DIGITS - 1]


def worker_of_home(worker: str, home: str) -> str:
    """A process's name (a UUID's 32 hex digits) for ids of queries that decide there."""
    return worker if home == NOT_SAID else f"{home}{worker[HOME_DIGITS:12]}8{worker[13:]}"


def home_of_worker(worker: str) -> str:
    """What `worker_of_home` put into a process's name; NOT_SAID in one of an earlier oncelog."""
    return worker[:HOME_DIGITS] if re.fullmatch("[12].{11}8.{3}[89ab].{15}", worker) else NOT_SAID


def attempt_text(task_attempt_id: int, home: str) -> str:
    """The last part of an id of a batch write."""
    return f"{task_attempt_id}" if home == NOT_SAID else f"{int(home, 16)}{task_attempt_id:0{ATTEMPT_DIGITS}}"


def attempt_and_home(text: str) -> tuple[int, str]:
    """What `attempt_text` put together; `text` has nothing but digits."""
    home = f"{int(text[:-ATTEMPT_DIGITS] or '0'):x}"
    if len(home) != HOME_DIGITS or home[0] not in (TOPIC, DATABASE):
        return int(text), NOT_SAID
    return int(text[-ATTEMPT_DIGITS:]), home


def in_words(home: str, topics: Iterable[str]) -> str:
    """A home for a list; `topics`: all of the cluster, one of which may be it."""
    if home == NOT_SAID:
        return "not said"
    if home[0] == DATABASE:
        return "a database"
    topic = next((each for each in topics if topic_home(each) == home), None)
    return "another topic" if topic is None else f"topic {topic}"


def why_elsewhere(who: str, home: str, looked_at: str, topics: Iterable[str]) -> str | None:
    """Why nothing can be said of what a query left open, where it decides in another place than was looked at, and what to do.

    Args:
        who: the query, in words.
        looked_at: the home of the store that was asked.
        topics: all of the cluster, one of which may be the place.
    """
    if home in (NOT_SAID, looked_at):
        return None
    topic = next((each for each in topics if topic_home(each) == home), None)
    if topic is not None:
        where, way = f"in the topic {topic!r}", f"Give --decision-topic {quoted(topic)}"
    elif home[0] == TOPIC:
        where, way = "in another topic, which is not to be seen here", "Give it with --decision-topic"
    else:
        other = "another" if looked_at[:1] == DATABASE else "a"
        where, way = f"in {other} database", "Give --decision-url (of a dual_write its database_url)"
    return (
        f"{who} keeps its decisions {where}: what it left open may be decided there, and is left as it is. {way}; where that is "
        "gone for good, oncelog transactions force-terminate ends them one by one"
    )
