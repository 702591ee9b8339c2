"""The report's drawings as SVG text: lanes over time, and bars. Colours come from the page's style sheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from oncelog.lazy_dataclass import dataclass

WIDTH, LEFT, RIGHT = 1000, 150, 20
LANE, GAP, TOP = 44, 14, 54.0


@dataclass(frozen=True)
class Span:
    """One transaction or micro-batch: from, to (seconds), and what became of it (a class of the style sheet)."""

    begin: float
    end: float
    kind: str
    title: str


@dataclass(frozen=True)
class Lane:
    """One partition: samples of (seconds, last stable offset, high watermark), and the transactions that wrote there."""

    name: str
    samples: Sequence[tuple[float, int, int]]
    spans: Sequence[Span] = ()


def timeline(
    rows: Mapping[str, Sequence[Span]], lanes: Sequence[Lane], kills: Sequence[tuple[float, str]], seconds: float
) -> str:
    """Rows of spans, below them a lane per partition; kills go through all of it."""
    height = 60 + len(rows) * (22 + GAP) + len(lanes) * (LANE + GAP) + 40
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="timeline of transactions, partitions and kills">'
    ]
    y = TOP
    for name, spans in rows.items():
        parts.append(_label(name, y + 15))
        parts += [_span(span, y, seconds) for span in spans]
        y += 22 + GAP
    for lane in lanes:
        parts.append(_label(lane.name, y + LANE / 2 + 4))
        parts.append(_lane(lane, y, seconds))
        parts += [_span(span, y + LANE + 2, seconds, height=5) for span in lane.spans]
        y += LANE + GAP
    parts += _axis(y, seconds)
    for i, (at, what) in enumerate(kills):
        x, line = _x(at, seconds), 13 + 15 * (i % 3)  # names stand on three lines, so that near kills stay readable
        parts.append(f'<line class="kill" x1="{x:.1f}" x2="{x:.1f}" y1="{line + 3}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="kill-name" x="{x:.1f}" y="{line}" text-anchor="middle">{escape(what)} killed</text>'
        )
    return "".join([*parts, "</svg>"])


def _x(at: float, seconds: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * min(max(at / seconds, 0.0), 1.0)


def _label(name: str, y: float) -> str:
    return f'<text class="label" x="{LEFT - 10}" y="{y:.1f}" text-anchor="end">{escape(name)}</text>'


def _span(span: Span, y: float, seconds: float, height: int = 22) -> str:
    x, width = _x(span.begin, seconds), max(_x(span.end, seconds) - _x(span.begin, seconds), 1.2)
    return (
        f'<rect class="span {span.kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" rx="{2 if height > 10 else 0}">'
        f"<title>{escape(span.title)}</title></rect>"
    )


def _lane(lane: Lane, y: float, seconds: float) -> str:
    if not lane.samples:
        return ""
    top = max(high for _, _, high in lane.samples) or 1

    def point(at: float, offset: int) -> str:
        return f"{_x(at, seconds):.1f},{y + LANE - LANE * offset / top:.1f}"

    stable = [point(at, offset) for at, offset, _ in lane.samples]
    high = [point(at, offset) for at, _, offset in lane.samples]
    first, last = _x(lane.samples[0][0], seconds), _x(lane.samples[-1][0], seconds)
    base = y + LANE
    return (
        f'<rect class="lane" x="{LEFT}" y="{y:.1f}" width="{WIDTH - LEFT - RIGHT}" height="{LANE}"/>'
        f'<polygon class="held" points="{" ".join(high)} {" ".join(reversed(stable))}"/>'
        f'<polygon class="visible" points="{first:.1f},{base:.1f} {" ".join(stable)} {last:.1f},{base:.1f}"/>'
        f'<polyline class="stable" points="{" ".join(stable)}"/><polyline class="high" points="{" ".join(high)}"/>'
    )


def _axis(y: float, seconds: float) -> list[str]:
    step = next((s for s in (1, 2, 5, 10, 20, 30, 60, 120) if seconds / s <= 14), 300)
    parts = []
    for i in range(int(seconds // step) + 1):
        x = _x(i * step, seconds)
        parts.append(f'<text class="tick" x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{i * step} s</text>')
    return parts


def bars(rows: Sequence[tuple[str, float, str]], label: str) -> str:
    """Horizontal bars: (name, value, text behind it)."""
    height = len(rows) * 26 + 10
    top = max((abs(value) for _, value, _ in rows), default=1.0) or 1.0
    has_negative = any(value < 0 for _, value, _ in rows)
    room = WIDTH - 250 - 200
    zero = 250 + (room * 0.25 if has_negative else 0)
    scale = (room * 0.75 if has_negative else room) / top
    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">']
    for i, (name, value, text) in enumerate(rows):
        y, width = 5 + i * 26, abs(value) * scale
        x = zero if value >= 0 else zero - width
        parts.append(f'<text class="label" x="240" y="{y + 15}" text-anchor="end">{escape(name)}</text>')
        parts.append(
            f'<rect class="bar{" early" if value < 0 else ""}" x="{x:.1f}" y="{y}" width="{max(width, 1):.1f}" height="20" rx="2"/>'
        )
        behind = zero + (width if value >= 0 else 0) + 8
        parts.append(f'<text class="tick" x="{behind:.1f}" y="{y + 15}">{escape(text)}</text>')
    return "".join([*parts, "</svg>"])
