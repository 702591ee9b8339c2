"""`admin.lanes(topic)`: the transactions of a topic as a picture and as a table, at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oncelog.client import arguments
from oncelog.client.admin.hanging import AdminHanging
from oncelog.client.admin.lane_reading import LaneReading
from oncelog.client.admin.owners import hanging_of, owner_seen, owners_of
from oncelog.client.admin.transaction_listing import HangingTransaction, TransactionDescription
from oncelog.core.diagnosis.facts import OpenTransaction
from oncelog.core.diagnosis.transactions import HANGING, transaction_verdict
from oncelog.core.lanes.lane import Lane, Span
from oncelog.core.lanes.lanes import Lanes
from oncelog.core.lanes.view import UNKNOWN_KIND, Judged
from oncelog.errors import KafkaError
from oncelog.types import TopicPartition

WINDOW_MS = 90_000
WINDOW_MAX_MS = 7 * 86_400_000


class AdminLanes(AdminHanging):
    """Transactions as spans: what an admin sees of them in the log."""

    async def lanes(self, topic: str, *, partitions: Iterable[int] | None = None, window_ms: int = WINDOW_MS) -> Lanes:
        """The transactions of the last `window_ms` on a topic's partitions, and all that are still open.

        A notebook shows it as a picture with a table; `to_svg()` and `to_arrow()` give both for elsewhere. Reads headers
        and markers with Fetch; works against Apache Kafka 4, too. Needs DESCRIBE and READ on the topic; names and verdicts
        need DESCRIBE on the transactional ids. Raises UnknownTopicOrPartition.
        """
        arguments.integer("window_ms", window_ms, low=1_000, high=WINDOW_MAX_MS)
        view = (await self.describe_topics([arguments.text("topic", topic)]))[topic]
        given = sorted(view.partitions)
        if partitions is not None:
            given = list(arguments.items("partitions", partitions, of="partitions"))
        wanted = [TopicPartition(topic, arguments.integer("a partition", each)) for each in given]
        reading = LaneReading(self)
        await reading.open(wanted, window_ms)
        lanes = [reading.lanes[at] for at in wanted]
        now_ms = self._host.clock.now_ms()
        notes = [f"{lane.where} could not be read: {lane.error}: {lane.error_text}" for lane in lanes if lane.error]
        producers = {each.producer_id for lane in lanes for each in [*lane.done, *lane.open.values()]}
        names: dict[int, str] = {}
        judged: dict[tuple[TopicPartition, int], Judged] = {}
        try:
            listed = await self.list_transactions(producer_ids=sorted(producers)) if producers else []
            names = {each.producer_id: each.transactional_id for each in listed}
            judged = await judge_open(self, lanes, now_ms)
        except KafkaError as error:
            notes.append(f"whose they are could not be asked: {error}")
        return Lanes(now_ms, window_ms, tuple(lanes), names, judged, notes=tuple(notes))


async def judge_open(
    admin: AdminHanging, lanes: Sequence[Lane], now_ms: int
) -> dict[tuple[TopicPartition, int], Judged]:
    """Who will end each open transaction of these lanes: asked of the coordinators, decided by core/diagnosis."""
    opened = [(lane, span) for lane in lanes for span in lane.open.values()]
    if not opened:
        return {}
    owners = await owners_of(admin, {span.producer_id for _, span in opened})
    hanging = await hanging_of(admin, {lane.where for lane, _ in opened})
    return {(lane.where, span.producer_id): _judged(lane, span, owners, hanging, now_ms) for lane, span in opened}


def _judged(
    lane: Lane,
    span: Span,
    owners: dict[int, TransactionDescription],
    hanging: dict[tuple[TopicPartition, int], HangingTransaction],
    now_ms: int,
) -> Judged:
    owner, hangs = owners.get(span.producer_id), hanging.get((lane.where, span.producer_id))
    seen = OpenTransaction(
        lane.where,
        span.producer_id,
        span.producer_epoch,
        span.first_offset,
        max(0, now_ms - span.last_ms),
        None if owner is None else owner_seen(owner),
        None if hangs is None else hangs.reason,
    )
    kind = transaction_verdict(seen)
    if kind == HANGING and hangs is None:
        return Judged(UNKNOWN_KIND)  # nobody names its owner, and nobody says that it has none: it ended, or is hidden
    remaining_ms = None if owner is None else owner.remaining_ms
    deadline_ms = None if remaining_ms is None else now_ms + remaining_ms
    return Judged(kind, deadline_ms, None if owner is None else owner.transactional_id)
