"""What `admin.lanes` gives: lanes at one moment, as a picture, for a notebook, and as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.core.lanes.drawing import svg_text
from oncelog.core.lanes.lane import OPEN
from oncelog.core.lanes.notebook import html_text
from oncelog.core.lanes.view import LanesView
from oncelog.errors import need

if TYPE_CHECKING:
    import pyarrow as pa

_COPIED = (
    *(
        "producer_id",
        "producer_epoch",
        "first_offset",
        "last_offset",
        "record_count",
        "size_bytes",
        "begin_ms",
        "end_ms",
    ),
    *("marker_offset", "outcome"),
)


class Lanes(LanesView):
    """Lanes at one moment. `_repr_html_` is an inline SVG without script, with a table below it, at most 50 kB."""

    def to_arrow(self) -> pa.Table:
        """One row for each span, ended ones first in each lane: topic, partition, transactional_id, producer_id, producer_epoch,
        first_offset, last_offset, record_count, size_bytes, begin_ms, end_ms, marker_offset, outcome, kind. Needs pyarrow."""
        need("to_arrow", "pyarrow", "arrow")
        import pyarrow as pa

        rows: list[dict[str, Any]] = []
        for lane in self.lanes:
            for span in [*lane.done, *lane.open.values()]:
                judged = self.judged.get((lane.where, span.producer_id)) if span.outcome == OPEN else None
                rows.append(
                    {
                        "topic": lane.where.topic,
                        "partition": lane.where.partition,
                        "transactional_id": self.names.get(span.producer_id),
                        **{name: getattr(span, name) for name in _COPIED},
                        "kind": None if judged is None else judged.kind,
                    }
                )
        text, number = pa.string(), pa.int64()
        kinds = dict.fromkeys(_COPIED, number) | {"partition": pa.int32()}
        kinds |= {"topic": text, "transactional_id": text, "outcome": text, "kind": text}
        order = ("topic", "partition", "transactional_id", *_COPIED, "kind")
        return pa.Table.from_pylist(rows, schema=pa.schema([(name, kinds[name]) for name in order]))

    def to_svg(self) -> str:
        """The picture, a document of its own: no script, nothing is loaded; follows the reader's light or dark theme."""
        return svg_text(self)

    def _repr_html_(self) -> str:
        return html_text(self)
