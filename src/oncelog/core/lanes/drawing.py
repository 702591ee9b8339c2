"""Lanes as one SVG document: the console's picture for notebooks, incident reports and mails. No script, nothing loaded.

Kinds differ by colour and by form, so that no meaning hangs on colour alone. Contrasts: tests/core/lanes/test_palette.py.
Bounded: `LANES_MAX` lanes, `ROWS_MAX` rows each, and spans are joined until the text fits `BYTES_MAX`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from oncelog.core.ages import clock_text
from oncelog.core.diagnosis.transactions import ENDING, HANGING, IN_PROGRESS, TWO_PHASE
from oncelog.core.lanes.lane import ABORTED, Lane, Span, merged
from oncelog.core.lanes.palette import DARK, LIGHT, Palette
from oncelog.core.lanes.view import ACTIVE, STOPPED, UNREADABLE, LanesView, OpenSpan, counted

WIDTH, GUTTER, FUTURE, AXIS = 1000, 190, 200, 28
ROW, HEAD, FOOT = 19, 22, 18
ROWS_MAX, LANES_MAX = 8, 12
BYTES_MAX = 40_000  # the table below it in a notebook has the rest of 50 kB
NAME_LENGTH_MAX = 22
NARROW = 8  # narrower bars have no pattern: aborted ones are low instead
NOW = WIDTH - FUTURE
CLASSES = {IN_PROGRESS: "progress", ENDING: "progress", TWO_PHASE: "prepared", HANGING: "hanging"}
SIGNS = {TWO_PHASE: "?", HANGING: "!", ENDING: "→"}
WORDS = {ACTIVE: "● active", "waiting": "◐ waiting", STOPPED: "■ stopped", UNREADABLE: "□ unreadable"}
STEPS_MS = [n * 1000 for n in (1, 2, 5, 10, 15, 30, 60, 120, 300, 900, 1800, 3600, 7200, 21_600, 86_400)]


def svg_text(lanes: LanesView) -> str:
    """The picture; joined more and more until it fits."""
    for gap_px in (1.5, 4, 10, 30, 100):
        text = _document(lanes, gap_px)
        if len(text.encode()) <= BYTES_MAX:
            break
    return text


def _document(lanes: LanesView, gap_px: float) -> str:
    picture = _Picture(lanes, gap_px)
    shown, left_out = _shown(lanes)
    body = "".join(picture.lane(lane) for lane in shown)
    bottom = picture.bottom
    if left_out:
        bottom += 20
        body += _text(10, bottom - 6, f"and {counted(left_out, 'more partition')}, all of them read to the end", "mute")
    body = picture.axis(bottom) + body + picture.joins() + picture.now_line(bottom) + _legend(bottom)
    height = bottom + 34
    title = escape(lanes.verdict())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="oncelog-lanes" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'width="{WIDTH}" height="{height}"><title>{title}</title><style>{_style()}</style>{_patterns()}'
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>{body}</svg>'
    )


def _shown(lanes: LanesView) -> tuple[list[Lane], int]:
    """Stopped lanes on top, the oldest first, then the others in order; how many are left out."""
    stopped = sorted(lanes.stopped, key=lambda lane: (lane.holder.begin_ms or 0) if lane.holder else 0)
    order = [*stopped, *(lane for lane in lanes.lanes if lane not in stopped)]
    return order[:LANES_MAX], max(0, len(order) - LANES_MAX)


class _Picture:
    """Draws lane after lane and remembers where open transactions stand, to join them."""

    def __init__(self, lanes: LanesView, gap_px: float) -> None:
        self.lanes = lanes
        self.gap_ms = gap_px * lanes.window_ms / (NOW - GUTTER)
        self.bottom = AXIS
        self.open = lanes.open()
        self.places: dict[int, list[float]] = {}

    def x(self, at_ms: int) -> float:
        """Where a moment is."""
        return round(GUTTER + (at_ms - self.lanes.since_ms) / self.lanes.window_ms * (NOW - GUTTER), 1)

    def axis(self, bottom: float) -> str:
        """Times (UTC) and their lines."""
        width_ms, found = self.lanes.window_ms, []
        step = next((each for each in STEPS_MS if each / width_ms * (NOW - GUTTER) > 80), STEPS_MS[-1])
        at_ms = -(-self.lanes.since_ms // step) * step
        while at_ms < self.lanes.now_ms:
            x = self.x(at_ms)
            found.append(f'<path class="line" d="M{x} {AXIS}V{bottom}"/>')
            if GUTTER + 24 < x < NOW - 40:
                found.append(_text(x, 17, clock_text(at_ms), "mute mid"))
            at_ms += step
        return "".join(found)

    def now_line(self, bottom: float) -> str:
        """What is left of it has happened; what is right of it will."""
        line = f'<path class="now" d="M{NOW} {AXIS - 4}V{bottom}"/>'
        return line + _text(NOW, 17, "now", "strong mid") + _text(NOW + 22, 17, "what will happen", "mute")

    def lane(self, lane: Lane) -> str:
        """One partition."""
        spans = merged(
            (each for each in lane.done if (each.end_ms or 0) >= self.lanes.since_ms and each.end_ms is not None),
            self.gap_ms,
        )
        rows = self._rows(lane, spans)
        top, height = self.bottom, HEAD + max(1, min(ROWS_MAX, len(rows))) * ROW + FOOT
        self.bottom += height
        word = self.lanes.word(lane)
        return "".join(
            [
                f'<rect class="panel" y="{top}" width="{GUTTER}" height="{height}"/>',
                self._band(lane, word, top, height),
                f'<path class="line" d="M0 {top + height - 0.5}H{WIDTH}"/>',
                _text(10, top + 15, str(lane.where), "strong"),
                _text(GUTTER - 8, top + 15, WORDS[word], f"word end {word}"),
                *self._names(rows, top),
                self._ended(lane, spans, rows, top),
                *self._opened(lane, rows, top),
                self._plain(lane, top + height),
                *self._positions(lane, top + height),
                _text(GUTTER + 8, top + HEAD + 13, f"cannot be read: {lane.error}", "mute") if lane.error else "",
            ]
        )

    def _rows(self, lane: Lane, spans: Sequence[Span]) -> dict[int, int]:
        holder = lane.holder
        first = [holder.producer_id] if holder is not None else []
        order = dict.fromkeys([*first, *lane.open, *(each.producer_id for each in spans)])
        return {producer_id: min(index, ROWS_MAX - 1) for index, producer_id in enumerate(order)}

    def _names(self, rows: dict[int, int], top: float) -> Iterator[str]:
        by_letter = {each.producer_id for each in self.open}
        for producer_id, row in list(rows.items())[:ROWS_MAX]:
            y = top + HEAD + row * ROW + 13
            is_shared = row == ROWS_MAX - 1 and len(rows) > ROWS_MAX
            name = f"{len(rows) - ROWS_MAX + 1} more" if is_shared else self.lanes.name_of(producer_id)
            short = name if len(name) <= NAME_LENGTH_MAX else f"{name[: NAME_LENGTH_MAX - 1]}…"
            yield _text(GUTTER - 8, y, short, "end strong" if producer_id in by_letter else "end mute")

    def _band(self, lane: Lane, word: str, top: float, height: float) -> str:
        """From the last stable offset to now: written, and not readable."""
        holder = lane.holder
        if word in (ACTIVE, UNREADABLE) or holder is None:
            return ""
        begin_ms = holder.begin_ms
        is_before = begin_ms is None or begin_ms < self.lanes.since_ms
        x = GUTTER if is_before or begin_ms is None else self.x(begin_ms)
        edge = "" if is_before else f'<path class="edge" d="M{x} {top}v{height}"/>'
        since = f"◀ since {clock_text(begin_ms)}  " if is_before and begin_ms is not None else "◀ " if is_before else ""
        held = f"{counted(lane.blocked, 'offset')} behind LSO {lane.last_stable_offset}"
        says = [
            f"{since}read_committed sees nothing of this: {held}",
            f"{since}{held}",
            f"{lane.blocked} held back",
            "",
        ]
        text = next((each for each in says if len(each) * 6.4 < NOW - x - 12), "")
        label = _text(x + 8, top + 15, text, "held") if word == STOPPED and text else ""
        style = "band" if word == STOPPED else "band calm"
        return f'<rect class="{style}" x="{x}" y="{top}" width="{round(NOW - x, 1)}" height="{height}"/>{edge}{label}'

    def _ended(self, lane: Lane, spans: Sequence[Span], rows: dict[int, int], top: float) -> str:
        """All ended spans: one path for each look, which keeps the text small."""
        paths: dict[str, list[str]] = {}
        stable = lane.last_stable_offset or 0
        for each in spans:
            x0 = GUTTER if each.begin_ms is None else max(GUTTER, self.x(each.begin_ms))
            width = round(max(2.0, min(NOW, self.x(each.end_ms or 0)) - x0), 1)
            y, tall = top + HEAD + rows[each.producer_id] * ROW + 3, ROW - 6
            is_hidden = each.marker_offset is not None and each.marker_offset >= stable and lane.blocked > 0
            style = each.outcome
            if each.outcome == ABORTED and width < NARROW:
                style, y, tall = "aborted low", y + tall - 5, 5
            if each.begin_ms is None:
                style = f"{each.outcome} earlier"
            style += " hidden" if is_hidden else ""
            paths.setdefault(style, []).append(f"M{x0} {y}h{width}v{tall}h-{width}z")
        return "".join(f'<path class="{style}" d="{"".join(found)}"/>' for style, found in sorted(paths.items()))

    def _opened(self, lane: Lane, rows: dict[int, int], top: float) -> Iterator[str]:
        for each in self.open:
            for where, span in each.spans:
                if where is lane:
                    yield self._one_open(each, span, top + HEAD + rows[span.producer_id] * ROW)

    def _one_open(self, found: OpenSpan, span: Span, y: float) -> str:
        style = CLASSES.get(found.judged.kind, "progress")
        x = GUTTER if span.begin_ms is None else max(GUTTER, self.x(span.begin_ms))
        self.places.setdefault(found.producer_id, []).append(y + ROW / 2)
        ticks = "".join(f"M{self.x(at)} {y + 3}v{ROW - 6}" for at in span.ticks if at >= self.lanes.since_ms)
        drawn = f'<path class="tick" d="{ticks}"/>' if style == "progress" and ticks else ""
        sign = SIGNS.get(found.judged.kind, "…")
        name = self.lanes.name_of(found.producer_id)
        tip = f"{found.letter}: {name}, producer {span.producer_id}:{span.producer_epoch}, from offset {span.first_offset}"
        return (
            f'<g class="{style}"><title>{escape(tip)}</title><rect class="bar" x="{x}" y="{y + 3}" '
            f'width="{round(max(2, NOW - x), 1)}" height="{ROW - 6}"/>{drawn}'
            f'<circle cx="{max(x, GUTTER + 9)}" cy="{y + ROW / 2}" r="8.5"/>'
            + _text(max(x, GUTTER + 9), y + ROW / 2 + 4, found.letter, "letter mid")
            + _text(NOW + 8, y + 13.5, f"{sign} {self.lanes.future(found.judged)}", "future")
            + "</g>"
        )

    def joins(self) -> str:
        """One transaction on several lanes is decided at once, so it is joined."""
        found = []
        for each in self.open:
            places = self.places.get(each.producer_id, [])
            if len(places) > 1:
                begin_ms = each.begin_ms
                x = GUTTER + 9 if begin_ms is None else max(GUTTER + 9, self.x(begin_ms))
                style = CLASSES.get(each.judged.kind, "progress")
                found.append(f'<path class="join {style}" d="M{x} {min(places) + 9}V{max(places) - 9}"/>')
        return "".join(found)

    def _plain(self, lane: Lane, bottom: float) -> str:
        """Records outside of transactions: a tick each, those closer than two pixels once."""
        places = dict.fromkeys(round(self.x(at) / 2) * 2 for _, _, at, _ in lane.plain if at >= self.lanes.since_ms)
        ticks = "".join(f"M{x} {bottom - 7}v4" for x in places)
        return f'<path class="plain" d="{ticks}"/>' if ticks else ""

    def _positions(self, lane: Lane, bottom: float) -> Iterator[str]:
        mine = [each for each in self.lanes.positions if each.where == lane.where]
        for each in mine[:1]:
            at_ms = lane.time_of(each.offset)
            x = GUTTER + 8 if at_ms is None else min(NOW - 1, max(GUTTER + 8, self.x(at_ms)))
            more = f", and {counted(len(mine) - 1, 'more group')}" if len(mine) > 1 else ""
            counts = f"{each.readable} readable, {each.held_back} held back, {each.raw_lag} raw"
            text = f"{each.group} reads here: {counts}{more}"
            is_left = x + 12 + len(text) * 6.2 > NOW
            yield f'<path class="group" d="M{x} {bottom - 15}l-5 9h10z"/>'
            yield _text(x + (-10 if is_left else 10), bottom - 6, text, "small end" if is_left else "small")


def _text(x: float, y: float, text: str, style: str) -> str:
    return f'<text x="{x}" y="{y}" class="{style}">{escape(text)}</text>'


def _legend(top: float) -> str:
    shown = (
        *(("committed", "committed"), ("aborted", "aborted"), ("progress", "in progress, its batches")),
        *(("prepared", "prepared, in doubt"), ("hanging", "hanging"), ("band", "written, behind the LSO")),
        ("committed hidden", "decided, not readable"),
    )
    found, x = [], 8
    for style, text in shown:
        box = f'x="{x}" y="{top + 13}" width="20" height="11"'
        inner = f'<path class="tick" d="M{x + 5} {top + 13}v11M{x + 12} {top + 13}v11"/>' if style == "progress" else ""
        if style in ("progress", "prepared", "hanging"):
            found.append(f'<g class="{style}"><rect class="bar" {box}/>{inner}</g>')
        else:
            found.append(f'<rect class="{style}" {box}/>')
        found.append(_text(x + 25, top + 23, text, "small mute"))
        x += 42 + round(len(text) * 6.1)
    return "".join(found)


def _patterns() -> str:
    def pattern(name: str, drawn: str, turn: int = 0, width: int = 6) -> str:
        return (
            f'<pattern id="oncelog-{name}" width="{width}" height="6" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate({turn})"><rect class="paper" width="{width}" height="6"/>{drawn}</pattern>'
        )

    line = '<path class="p-{}" d="M1.5 0v6"/>'
    cross = '<path class="p-hanging" d="M0 0l6 6M6 0l-6 6"/>'
    return (
        f"<defs>{pattern('aborted', line.format('aborted'), 45)}"
        f"{pattern('prepared', line.format('prepared'), 0, 4)}{pattern('hanging', cross)}</defs>"
    )


def _style() -> str:
    scope = ".oncelog-lanes"
    rules = (
        *("text{font:12px system-ui,'DejaVu Sans',sans-serif;fill:var(--fg)}", ".mid{text-anchor:middle}"),
        *(".end{text-anchor:end}", ".small{font-size:11.5px}", ".mute{fill:var(--mute)}", ".strong{font-weight:600}"),
        *(".word{font-weight:600;font-size:11.5px}", ".active{fill:var(--committed)}", ".waiting{fill:var(--edge)}"),
        *(".stopped,.unreadable{fill:var(--hanging)}", ".held{fill:var(--edge);font-weight:600}"),
        *(".paper{fill:var(--paper)}", ".panel{fill:var(--panel)}", ".line{stroke:var(--line)}"),
        *(".now{stroke:var(--fg);stroke-width:1.5}", ".band{fill:var(--band)}", ".calm{opacity:.45}"),
        *(
            ".edge{stroke:var(--edge);stroke-width:2;stroke-dasharray:5 3}",
            ".plain{stroke:var(--mute);stroke-width:1.5}",
        ),
        *(".group{fill:var(--fg)}", ".committed{fill:var(--committed);stroke:var(--committed)}"),
        ".aborted{fill:url(#oncelog-aborted);stroke:var(--aborted)}",
        *(".low{fill:var(--aborted)}", ".hidden{opacity:.35}", ".earlier{stroke-dasharray:3 2}"),
        *(".progress{--kind:var(--progress)}", ".prepared{--kind:var(--prepared)}", ".hanging{--kind:var(--hanging)}"),
        *(
            ".bar{stroke:var(--kind)}",
            ".progress .bar{fill:var(--kind);fill-opacity:.25}",
            ".tick{stroke:var(--kind);stroke-width:2.5}",
        ),
        *(".prepared .bar{fill:url(#oncelog-prepared)}", ".hanging .bar{fill:url(#oncelog-hanging)}"),
        *("circle,.future{fill:var(--kind)}", ".letter{fill:var(--paper);font-weight:700;font-size:11px}"),
        *(".join{stroke:var(--kind);stroke-width:1.5;stroke-dasharray:1 3;fill:none}",),
        *(f".p-{each}{{stroke:var(--{each});stroke-width:2}}" for each in ("aborted", "prepared", "hanging")),
    )
    scoped = "".join(_scoped(scope, *rule.split("{", 1)) for rule in rules)
    return f"{scope}{{{_colours(LIGHT)}}}@media(prefers-color-scheme:dark){{{scope}{{{_colours(DARK)}}}}}{scoped}"


def _scoped(scope: str, selectors: str, body: str) -> str:
    return ",".join(f"{scope} {each}" for each in selectors.split(",")) + "{" + body


def _colours(palette: Palette) -> str:
    return "".join(f"--{name}:{value};" for name, value in palette.items())
