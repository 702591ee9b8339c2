"""The topic that a sink writes to, as the driver sees it: a broker makes one that is not there, and says nothing.

Spark's own Kafka sink leaves it there. Here the driver's log has a line for a topic that its first record will make, and for one
that was deleted and made anew under a running query: both have the broker's default settings, and no record of before.
"""

from __future__ import annotations

import logging

from oncelog import errors, sync
from oncelog.host.recently_used import RecentlyUsed
from oncelog.spark.options import SinkOptions

logger = logging.getLogger("oncelog.spark")
PARTITIONS_KEY, CREATES_KEY = "num.partitions", "auto.create.topics.enable"
TARGETS_MAX = 256
"""Of a process of Spark's: of so many it remembers what it saw. Of one that it forgot it warns once more, or is not told that it
was made anew."""
_seen: RecentlyUsed[tuple[bytes, int]] = RecentlyUsed(
    TARGETS_MAX
)  # by (servers, topic): its id, and how many partitions it has
_absent: RecentlyUsed[bool] = RecentlyUsed(TARGETS_MAX)  # those that were not there


def look_at_the_target(options: SinkOptions, admin: sync.Admin) -> None:
    """Warn where the option's topic is not there, or is not the one of the look before. Topics of a column are not looked at."""
    if options.topic is None:
        return
    key = options.client.get("bootstrap.servers", ""), options.topic
    try:
        found = admin.describe_topics([options.topic])[options.topic]
    except errors.UnknownTopicOrPartition:
        if not _absent.put(key, True):
            _tell_of_its_making(options.topic, admin)
        return
    except errors.KafkaError as error:  # no right to see it, no such name: whoever writes hears of it
        logger.debug("the topic %r is not to be seen: %s", options.topic, error)
        return
    now = found.topic_id, len(found.partitions)
    before = _seen.put(key, now)
    _absent.forget(key)
    if before is not None and before[0] != now[0]:
        logger.warning(
            "oncelog: the topic %r was deleted and made anew: what was written to it is gone, and it has %s%s. Stop the query "
            "where that is not wanted",
            options.topic,
            _in_words(now[1]),
            f" (before: {_in_words(before[1])})" if before[1] != now[1] else "",
        )


def _tell_of_its_making(topic: str, admin: sync.Admin) -> None:
    configs = admin.describe_broker_configs()
    if configs.get(CREATES_KEY) == "false":
        logger.warning("oncelog: the topic %r is not there, and the broker makes none (%s=false)", topic, CREATES_KEY)
        return
    count = configs.get(PARTITIONS_KEY)
    logger.warning(
        "oncelog: the topic %r is not there: the first record makes it, with %s and the broker's settings. Make it before where "
        "it shall have others",
        topic,
        _in_words(int(count)) if count and count.isdecimal() else f"the broker's {PARTITIONS_KEY}",
    )


def _in_words(partition_count: int) -> str:
    return f"{partition_count} partition{'s' * (partition_count != 1)}"
