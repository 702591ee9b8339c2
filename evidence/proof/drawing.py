"""Pieces of the report as HTML and SVG text: tables, bars, the times of recovery."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from evidence.crash.recovery import RECOVERY_LIMIT_S, percentile

WIDTH = 520
BINS = 44


def number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else escape(str(value))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], classes: Sequence[str] = (), name: str = "") -> str:
    """`rows` are HTML; a head that ends in "#" has numbers under it; `classes` are those of the rows."""
    rows = list(rows)
    kinds = ["n" if head.endswith("#") else "words" if head.endswith("~") else "" for head in heads]
    top = "".join(
        f'<th class="{kind}">{escape(head.rstrip("#~"))}</th>' for head, kind in zip(heads, kinds, strict=True)
    )
    body = ""
    for index, row in enumerate(rows):
        cells = "".join(f'<td class="{kind}">{cell}</td>' for cell, kind in zip(row, kinds, strict=True))
        body += f'<tr class="{classes[index] if classes else ""}">{cells}</tr>'
    return f'<div class="scroll"><table class="{name}"><tr>{top}</tr>{body}</table></div>'


def bars(counts: Mapping[str, int], label: str) -> str:
    """One bar for each count, the largest first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    top = max((count for _, count in ordered), default=0) or 1
    height = len(ordered) * 22 + 6
    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">']
    for index, (name, count) in enumerate(ordered):
        y, width = 3 + index * 22, max((WIDTH - 300) * count / top, 1.0 if count else 0.0)
        parts.append(f'<text x="190" y="{y + 13}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect class="bar" x="200" y="{y}" width="{width:.1f}" height="17" rx="2"/>')
        parts.append(f'<text class="tick" x="{206 + width:.1f}" y="{y + 13}">{count:,}</text>')
    return "".join([*parts, "</svg>"])


def recovery(seconds: Sequence[float], label: str) -> str:
    """How many recoveries took how long; p50, p99 and max as marks, the limit beside them."""
    marks = [("p50", percentile(seconds, 0.5)), ("p99", percentile(seconds, 0.99)), ("max", max(seconds, default=0.0))]
    top = max(RECOVERY_LIMIT_S * 1.12, marks[-1][1] * 1.05)
    base, height, left, right = 130, 190, 10, 95  # behind the last mark there is room for its words
    room = WIDTH - left - right

    def at(value: float) -> float:
        return left + room * value / top

    counts = [0] * BINS
    for value in seconds:
        counts[min(int(value / top * BINS), BINS - 1)] += 1
    most = max(counts) or 1
    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">']
    for index, count in enumerate(counts):
        if count:
            tall = max(90 * count / most, 2.0)
            parts.append(
                f'<rect class="bar" x="{left + room * index / BINS:.1f}" y="{base - tall:.1f}" '
                f'width="{room / BINS - 1:.1f}" height="{tall:.1f}"><title>{count}</title></rect>'
            )
    parts.append(f'<line class="axis" x1="{left}" x2="{left + room}" y1="{base}" y2="{base}"/>')
    parts += [_mark(at(value), row, f"{name} {value:.2f} s") for row, (name, value) in enumerate(reversed(marks))]
    limit = at(RECOVERY_LIMIT_S)
    parts.append(f'<line class="limit" x1="{limit:.1f}" x2="{limit:.1f}" y1="22" y2="{base}"/>')
    parts.append(
        f'<text class="limit-name" x="{limit:.1f}" y="16" text-anchor="end">limit of p99: {RECOVERY_LIMIT_S:g} s</text>'
    )
    parts.append(f'<text class="tick" x="{left}" y="{base + 16}">0 s</text>')
    parts.append(f'<text class="tick" x="{left + room}" y="{base - 4}" text-anchor="end">{top:.1f} s</text>')
    return "".join([*parts, "</svg>"])


def _mark(x: float, row: int, text: str) -> str:
    """Each has its own line of text, the largest on top, so that no line crosses another one's words."""
    y = 152 + row * 15
    return (
        f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="34" y2="{y}"/>'
        f'<text x="{x + 5:.1f}" y="{y}">{escape(text)}</text>'
    )


def chips(names: Mapping[str, str], kind: str = "") -> str:
    """`names` with what stands behind each."""
    return "".join(
        f'<span class="chip {kind}">{escape(name)}{f" <i>{escape(behind)}</i>" if behind else ""}</span>'
        for name, behind in names.items()
    )


def facts(found: Iterable[tuple[str, str, bool]]) -> str:
    """(value, name, whether it is wrong)."""
    return (
        '<div class="facts">'
        + "".join(
            f'<div class="fact{" failed" if is_wrong else ""}"><b>{escape(value)}</b><span>{escape(name)}</span></div>'
            for value, name, is_wrong in found
        )
        + "</div>"
    )
