"""Lanes in a notebook: the verdict, the picture, and a table of the open transactions. HTML without script, at most 50 kB."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from oncelog.core.ages import age_text
from oncelog.core.lanes.drawing import svg_text
from oncelog.core.lanes.view import LanesView, OpenSpan

ROWS_MAX = 25
TEXT_LENGTH_MAX = 60
_TITLES = ("", "transactional id", "producer", "since", "verdict", "what will happen", "from offset", "holds back")


def html_text(lanes: LanesView) -> str:
    """What a notebook shows."""
    found = lanes.open()
    rows = "".join(f"<tr>{''.join(_cells(lanes, each))}</tr>" for each in found[:ROWS_MAX])
    heads = "".join(f'<th scope="col">{each}</th>' for each in _TITLES)
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>" if found else ""
    more = f"<p>and {len(found) - ROWS_MAX} more open transactions: see to_arrow()</p>" if len(found) > ROWS_MAX else ""
    notes = "".join(f"<p>{escape(each)}</p>" for each in lanes.notes[:5])
    return f"<div><p><b>{escape(lanes.verdict())}</b></p>{svg_text(lanes)}{table}{more}{notes}</div>"


def _cells(lanes: LanesView, found: OpenSpan) -> Iterator[str]:
    begin_ms = found.begin_ms
    epochs = sorted({span.producer_epoch for _, span in found.spans})
    holds = ", ".join(f"{lane.where} ({lane.blocked})" for lane in found.holds)
    texts = (
        found.letter,
        lanes.names.get(found.producer_id, "-"),
        f"{found.producer_id}:{','.join(map(str, epochs))}",
        "-" if begin_ms is None else age_text(lanes.now_ms - begin_ms),
        found.judged.kind,
        lanes.future(found.judged),
        ", ".join(f"{lane.where} {span.first_offset}" for lane, span in found.spans),
        holds or "nothing",
    )
    for each in texts:
        yield f"<td>{escape(each if len(each) <= TEXT_LENGTH_MAX else each[: TEXT_LENGTH_MAX - 1] + '…')}</td>"
