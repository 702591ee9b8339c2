// The lanes on a canvas. Reads a model, draws a frame, and remembers which rectangle is which span.
// @ts-check
import { visible } from './html.js'
import { ABORTED, OPEN, age, clock } from './model.js'

const GUTTER = 190, FUTURE = 216, NARROW_PAGE = 560
const AXIS = 28, ROW = 20, HEAD = 22, FOOT = 20, ROWS_MAX = 8, NARROW = 8
const SANS = '12px system-ui,"DejaVu Sans",sans-serif', BOLD = '600 12px system-ui,"DejaVu Sans",sans-serif'
const SMALL = '10px system-ui,"DejaVu Sans",sans-serif'
const COLOURS = ['paper', 'panel', 'line', 'fg', 'mute', 'committed', 'aborted', 'progress', 'prepared', 'hanging', 'band', 'edge']
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 900, 1800, 3600].map(s => s * 1000)
const OFFSETS = 14 // of a lane: its own axis
const SIGN = { 'two-phase': '?', hanging: '!', ending: '→' }
const WORD = { active: '● active', waiting: '◐ waiting', stopped: '■ stopped', unreadable: '□ unreadable' }
const WORD_COLOUR = { active: 'committed', waiting: 'edge', stopped: 'hanging', unreadable: 'hanging' }

/** A kind's pattern: outcome must not need colour vision. */
function pattern(g, colour, paper, kind) {
  const tile = document.createElement('canvas')
  tile.width = tile.height = 8
  const x = tile.getContext('2d')
  x.fillStyle = paper; x.fillRect(0, 0, 8, 8)
  x.strokeStyle = colour; x.lineWidth = 2; x.beginPath()
  if (kind === 'aborted') for (const d of [-8, 0, 8]) { x.moveTo(d, 8); x.lineTo(d + 8, 0) }
  else if (kind === 'prepared') for (const d of [2, 6]) { x.moveTo(d, 0); x.lineTo(d, 8) }
  else { x.moveTo(0, 0); x.lineTo(8, 8); x.moveTo(8, 0); x.lineTo(0, 8) }
  x.stroke()
  return g.createPattern(tile, 'repeat')
}

export class Drawing {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas
    this.g = canvas.getContext('2d')
    this.hits = /** @type {any[]} */ ([])
    this.shortened = new Map()
    this.theme()
  }

  theme() {
    const style = getComputedStyle(document.documentElement)
    this.c = Object.fromEntries(COLOURS.map(name => [name, style.getPropertyValue(`--${name}`).trim()]))
    for (const kind of ['aborted', 'prepared', 'hanging']) this.c[`p-${kind}`] = pattern(this.g, this.c[kind], this.c.paper, kind)
  }

  layout(model, isByOffset) {
    let y = AXIS
    for (const lane of model.lanes) {
      const rows = lane.word === 'active' ? lane.rows : [...lane.rows].sort((a, b) => (b === String(lane.holder)) - (a === String(lane.holder)))
      lane.rowOf = new Map(rows.map((id, i) => [id, Math.min(i, ROWS_MAX - 1)]))
      lane.rowIds = rows
      lane.y = y
      lane.h = HEAD + Math.min(ROWS_MAX, Math.max(1, rows.length)) * ROW + FOOT + (isByOffset ? OFFSETS : 0)
      y += lane.h
    }
    return Math.max(y + 2, 120)
  }

  /** @param {any} model @param {{nowMs: number, windowMs: number, selected: string|null, atMs?: number|null, isByOffset?: boolean}} view `nowMs`: the right edge; `atMs`: a moment of the past */
  draw(model, view) {
    const g = this.g, w = this.canvas.clientWidth, h = this.layout(model, view.isByOffset), ratio = devicePixelRatio || 1
    this.canvas.style.height = `${h}px`
    if (this.canvas.width !== Math.round(w * ratio) || this.canvas.height !== Math.round(h * ratio)) {
      this.canvas.width = Math.round(w * ratio); this.canvas.height = Math.round(h * ratio)
    }
    g.setTransform(ratio, 0, 0, ratio, 0, 0)
    this.gutter = w < NARROW_PAGE ? Math.round(w / 3) : GUTTER
    this.now = w - Math.min(FUTURE, w < NARROW_PAGE ? w * 0.38 : w / 4)
    this.since = view.nowMs - view.windowMs
    this.scale = (this.now - this.gutter) / view.windowMs
    this.model = model; this.view = view; this.w = w; this.hits = []; this.isPast = view.atMs !== undefined && view.atMs !== null
    g.fillStyle = this.c.paper; g.fillRect(0, 0, w, h); g.textBaseline = 'middle'
    this.axis(h)
    for (const lane of model.lanes) this.lane(lane)
    this.joins()
    const isPast = this.isPast
    g.strokeStyle = isPast ? this.c.line : this.c.fg; g.lineWidth = 1.5; this.line(this.now, AXIS - 4, this.now, h)
    g.strokeStyle = this.c.fg
    if (isPast) for (const lane of model.lanes) if (lane.high_watermark !== null) { const x = this.where(lane, view.atMs, lane.high_watermark); this.line(x, lane.y, x, lane.y + lane.h) }
    g.lineWidth = 1
    if (isPast && !view.isByOffset) this.text(clock(view.atMs), this.x(view.atMs), 13, 'fg', BOLD, 'center')
    if (!isPast) this.text(view.isByOffset ? 'end' : 'now', this.now, 13, 'fg', BOLD, 'center')
    this.text(isPast ? 'what became of it' : 'what will happen', this.now + (isPast ? 9 : 24), 13, 'mute')
  }

  x(ms) { return this.gutter + (ms - this.since) * this.scale }

  /** Where something is: by its offset, or by its time. Null where that is not known. */
  where(lane, ms, offset) {
    if (!this.view.isByOffset) return ms === null ? null : this.x(ms)
    return offset === null ? null : this.gutter + (offset - lane.from_offset) * (this.now - this.gutter) / Math.max(1, lane.end_offset - lane.from_offset)
  }

  line(x0, y0, x1, y1) { this.g.beginPath(); this.g.moveTo(x0, y0); this.g.lineTo(x1, y1); this.g.stroke() }

  text(text, x, y, colour, font = SANS, align = 'left') {
    this.g.font = font; this.g.fillStyle = this.c[colour]; this.g.textAlign = align; this.g.fillText(visible(text), x, y)
  }

  width(text, font = SANS) { this.g.font = font; return this.g.measureText(visible(text)).width }

  /** A name's two ends: both tell it from others. */
  fitting(text, room) {
    const kept = this.shortened.get(`${room} ${text}`)
    if (kept !== undefined) return kept
    let short = text
    for (let n = Math.floor(text.length / 2) - 1; n > 2 && this.width(short, BOLD) > room; n--) short = `${text.slice(0, n)}…${text.slice(-n)}`
    if (this.shortened.size > 200) this.shortened.clear() // it is asked for each lane of each frame
    this.shortened.set(`${room} ${text}`, short)
    return short
  }

  axis(h) {
    if (this.view.isByOffset) return this.text(['offsets, of each partition its own', 'offsets'].find(each => this.width(each) < this.now - this.gutter - 30) ?? '', this.gutter + 8, 13, 'mute')
    const step = STEPS.find(ms => ms * this.scale > 78) ?? STEPS.at(-1)
    this.g.strokeStyle = this.c.line
    for (let ms = Math.ceil(this.since / step) * step; ms < this.view.nowMs; ms += step) {
      const x = Math.round(this.x(ms)) + 0.5
      this.line(x, AXIS, x, h)
      if (x > this.gutter + 24 && x < this.now - 46 && !(Math.abs(ms - this.view.atMs) * this.scale < 62)) this.text(clock(ms), x, 13, 'mute', SANS, 'center')
    }
  }

  lane(lane) {
    const g = this.g, top = lane.y, bottom = top + lane.h - (this.view.isByOffset ? OFFSETS : 0)
    g.fillStyle = this.c.panel; g.fillRect(0, top, this.gutter, lane.h)
    this.band(lane, top)
    g.strokeStyle = this.c.line; this.line(0, top + lane.h - 0.5, this.w, top + lane.h - 0.5)
    if (this.view.isByOffset && lane.from_offset !== null) this.offsets(lane, top)
    const word = this.gutter < GUTTER ? WORD[lane.word][0] : WORD[lane.word]
    this.text(this.fitting(lane.at, this.gutter - 24 - this.width(word, BOLD)), 10, top + 12, 'fg', BOLD)
    this.text(word, this.gutter - 8, top + 12, WORD_COLOUR[lane.word], BOLD, 'right')
    if (!lane.rows.length && !lane.error) this.text(['no transactions in this time', 'no transactions'].find(each => this.width(each) < this.gutter - 12) ?? 'none', this.gutter - 8, top + HEAD + ROW / 2, 'mute', SANS, 'right')
    g.save()
    g.beginPath(); g.rect(this.gutter, top, this.now - this.gutter, lane.h); g.clip()
    if (lane.read_from_ms > this.since + 1000 && !this.view.isByOffset) this.unread(lane, top)
    g.fillStyle = this.c.mute
    for (const each of lane.plain) g.fillRect(this.where(lane, each.ms, each.offset), bottom - 7, 1.5, 5)
    const ends = new Array(ROWS_MAX).fill(-1e9)
    for (const span of lane.done) this.ended(lane, span, ends)
    for (const span of lane.open) this.opened(lane, span)
    this.groups(lane, bottom)
    g.restore()
    if (lane.error) this.text(`cannot be read: ${lane.error}`, this.gutter + 8, top + 12, 'hanging', BOLD) // on top of what is not read
    this.names(lane, top)
    for (const span of lane.then) this.future(lane, span)
  }

  unread(lane, top) {
    const x = Math.min(this.now, this.x(lane.read_from_ms))
    this.g.fillStyle = this.c.panel; this.g.fillRect(this.gutter, top, x - this.gutter, lane.h)
    if (x - this.gutter > 130) this.text('not read before this', x - 6, top + lane.h - 10, 'mute', SANS, 'right')
  }

  /** A lane's own axis. */
  offsets(lane, top) {
    const room = (lane.end_offset - lane.from_offset) * 84 / (this.now - this.gutter), ten = 10 ** Math.floor(Math.log10(Math.max(1, room)))
    const step = [1, 2, 5, 10].map(n => n * ten).find(n => n >= room) ?? ten
    this.g.strokeStyle = this.c.line
    for (let at = Math.ceil(lane.from_offset / step) * step; at <= lane.end_offset; at += step) {
      const x = Math.round(this.where(lane, null, at)) + 0.5
      this.line(x, top, x, top + lane.h - OFFSETS + 3)
      if (x > this.gutter + 12 && x < this.now - 12) this.text(String(at), x, top + lane.h - 7, 'mute', SMALL, 'center')
    }
  }

  // Of a time that is over: where readers stood for long, from what they could not pass until its marker came.
  held(lane, top) {
    const g = this.g
    let told = -1e9
    for (const [first, marker, begin, end] of lane.held) {
      const from = this.where(lane, begin, first), to = this.where(lane, end, marker), isBefore = from === null || from < this.gutter
      const x = isBefore ? this.gutter : from, until = to === null ? this.now : Math.min(this.now, to)
      if (until <= x) continue
      g.fillStyle = this.c.band; g.fillRect(x, top, until - x, lane.h)
      g.strokeStyle = this.c.edge; g.lineWidth = 2; g.setLineDash([5, 3])
      if (!isBefore) this.line(x, top, x, top + lane.h)
      if (to !== null && to < this.now) this.line(to, top, to, top + lane.h)
      g.setLineDash([]); g.lineWidth = 1
      const since = !isBefore || begin === null ? '' : `◀ since ${clock(begin)}  `, length = begin === null || end === null ? '' : ` for ${age(end - begin)}`
      const text = [`${since}read_committed stood at ${first}${length}`, `stood at ${first}${length}`, `at ${first}`].find(each => this.width(each, BOLD) < until - Math.max(x, told) - 12)
      if (text) { this.text(text, Math.max(x, told) + 8, top + 12, 'edge', BOLD); told = Math.max(x, told) + 16 + this.width(text, BOLD) }
    }
  }

  // From the last stable offset to now: written, and not readable.
  band(lane, top) {
    if (lane.held) return this.held(lane, top)
    if (lane.word !== 'stopped' && (lane.word !== 'waiting' || lane.lso_ms === null)) return
    const g = this.g, from = lane.lso_ms, place = this.where(lane, from, lane.lso), isBefore = place === null || place < this.gutter
    const x = isBefore ? this.gutter : place
    g.globalAlpha = lane.word === 'stopped' ? 1 : 0.45
    g.fillStyle = this.c.band; g.fillRect(x, top, this.now - x, lane.h); g.globalAlpha = 1
    if (!isBefore) { g.strokeStyle = this.c.edge; g.lineWidth = 2; g.setLineDash([5, 3]); this.line(x, top, x, top + lane.h); g.setLineDash([]); g.lineWidth = 1 }
    if (lane.word !== 'stopped') return
    const since = !isBefore ? '' : from === null || this.view.isByOffset ? '◀ ' : `◀ since ${clock(from)}  `
    const held = `${lane.blocked} offset${lane.blocked === 1 ? '' : 's'} behind LSO ${lane.lso}`
    const text = [`${since}read_committed sees nothing of this: ${held}`, `${since}${held}`, `${lane.blocked} held back`]
      .find(each => this.width(each, BOLD) < this.now - x - 12)
    if (text) this.text(text, x + 8, top + 12, 'edge', BOLD)
  }

  place(lane, span) {
    const row = lane.rowOf.get(span.id), y = lane.y + HEAD + row * ROW + 3
    const x = this.where(lane, span.begin, span.first) ?? this.gutter - 4, end = Math.min(this.now + 4, span.outcome === OPEN ? this.now : this.where(lane, span.end, span.marker))
    return { x, y, w: Math.max(2.5, end - x), h: ROW - 6, row, lane, span }
  }

  ended(lane, span, ends) {
    const g = this.g, p = this.place(lane, span)
    if (p.x + p.w < this.gutter || p.x > this.now || p.x + p.w < ends[p.row] + 1) return
    ends[p.row] = p.x + p.w
    this.hits.push(p)
    const isHidden = this.model.hiddenBy(lane, span), kind = span.outcome === ABORTED ? 'aborted' : 'committed'
    if (isHidden) g.globalAlpha = kind === 'aborted' ? 0.55 : 0.3
    if (kind === 'committed') { g.fillStyle = this.c.committed; g.fillRect(p.x, p.y, p.w, p.h) }
    else if (p.w < NARROW) { g.fillStyle = this.c.aborted; g.fillRect(p.x, p.y + p.h - 5, p.w, 5) }
    else { g.fillStyle = this.c['p-aborted']; g.fillRect(p.x, p.y, p.w, p.h) }
    if (isHidden) g.globalAlpha = 1
    if (p.w >= NARROW) { g.strokeStyle = this.c[kind]; g.strokeRect(p.x + 0.5, p.y + 0.5, p.w - 1, p.h - 1) }
    if (span.merged > 1 && p.w > 34) this.text(`×${span.merged}`, p.x + p.w / 2, p.y + p.h / 2 + 0.5, kind === 'committed' ? 'paper' : 'fg', BOLD, 'center')
    if (lane.then.includes(span)) { g.fillStyle = this.c[kind]; this.badge(span, p) }
    this.mark(lane, span, p)
  }

  mark(lane, span, p) {
    if (this.view.selected === null || this.view.selected !== keyOf(lane, span)) return // its name costs more than its drawing
    this.g.strokeStyle = this.c.fg; this.g.lineWidth = 2; this.g.strokeRect(p.x - 1.5, p.y - 1.5, p.w + 3, p.h + 3); this.g.lineWidth = 1
  }

  opened(lane, span) {
    const g = this.g, p = this.place(lane, span), kind = this.model.kind(span), colour = this.c[kind]
    if (p.x > this.now) return
    this.hits.push(p)
    // On paper, not on the band: blue through yellow is the green of what was committed.
    if (kind === 'progress') { g.fillStyle = this.c.paper; g.fillRect(p.x, p.y, p.w, p.h); g.fillStyle = colour; g.globalAlpha = 0.25; g.fillRect(p.x, p.y, p.w, p.h); g.globalAlpha = 1 }
    else { g.fillStyle = this.c[`p-${kind}`]; g.fillRect(p.x, p.y, p.w, p.h) }
    g.strokeStyle = colour; g.strokeRect(p.x + 0.5, p.y + 0.5, p.w - 1, p.h - 1)
    g.fillStyle = colour
    if (kind === 'progress' && !this.view.isByOffset) for (const ms of span.ticks) g.fillRect(this.x(ms) - 1, p.y, 2.5, p.h)
    this.badge(lane.then.includes(span) ? span : null, p)
    this.mark(lane, span, p)
  }

  badge(span, p) {
    const x = Math.max(this.gutter + 9, p.x), y = p.y + p.h / 2
    this.g.beginPath(); this.g.arc(x, y, 8.5, 0, 7); this.g.fill()
    this.text(this.model.open.get(span?.id)?.letter ?? '·', x, y + 0.5, 'paper', '700 11px system-ui,"DejaVu Sans",sans-serif', 'center')
  }

  joins() { // one transaction, several partitions: decided together, so joined
    const g = this.g
    for (const open of this.model.open.values()) {
      const places = this.model.lanes.flatMap(lane => lane.then.filter(s => s.id === String(open.producer_id)).map(span => ({ ...this.place(lane, span), span })))
      if (places.length < 2) continue
      const left = Math.max(this.gutter + 9, Math.min(...places.map(p => p.x))), x = p => this.view.isByOffset ? Math.max(this.gutter + 9, p.x) : left
      g.strokeStyle = this.c[this.model.kind(places[0].span)]
      g.lineWidth = 1.5; g.setLineDash([1, 3])
      places.slice(1).forEach((p, i) => this.line(x(places[i]), places[i].y + places[i].h / 2 + 9, x(p), p.y + p.h / 2 - 9))
      g.setLineDash([]); g.lineWidth = 1
    }
  }

  groups(lane, bottom) {
    const g = this.g
    lane.groups.slice(0, 1).forEach(([group, offset, ms, readable, held, raw]) => {
      const at = this.where(lane, ms, offset), x = at === null ? this.gutter + 8 : Math.min(this.now - 2, Math.max(this.gutter + 8, at)), y = bottom - 15
      g.fillStyle = this.c.fg; g.beginPath(); g.moveTo(x, y); g.lineTo(x - 5, y + 9); g.lineTo(x + 5, y + 9); g.fill()
      const more = lane.groups.length > 1 ? ` (and ${lane.groups.length - 1} more)` : ''
      const texts = [`${group} reads here: ${readable} readable, ${held} held back, ${raw} raw${more}`, `${group}: ${readable} / ${held} / ${raw}${more}`, group]
      const isLeft = x + 12 + this.width(texts[0]) > this.now && x - this.gutter > this.now - x, room = isLeft ? x - this.gutter - 12 : this.now - x - 12
      const text = texts.find(each => this.width(each) < room) ?? ''
      this.text(text, x + (isLeft ? -9 : 9), y + 6, 'fg', SANS, isLeft ? 'right' : 'left')
    })
  }

  names(lane, top) {
    lane.rowIds.slice(0, ROWS_MAX).forEach((id, i) => {
      const isShared = i === ROWS_MAX - 1 && lane.rowIds.length > ROWS_MAX, isOpen = lane.open.some(s => s.id === id)
      let text = isShared ? `${lane.rowIds.length - i} more` : this.model.name({ id })
      const font = isOpen ? BOLD : SANS
      while (text.length > 4 && this.width(text, font) > this.gutter - 20) text = `${text.slice(0, -2)}…`
      this.text(text, this.gutter - 8, top + HEAD + i * ROW + ROW / 2, isOpen ? 'fg' : 'mute', font, 'right')
    })
  }

  future(lane, span) {
    const open = this.model.open.get(span.id)
    if (!open) return
    const left = open.deadline_ms === null ? null : open.deadline_ms - this.view.nowMs
    const text = left !== null && left > 0 ? `aborts in ${age(left)}` : open.future, room = this.w - this.now - 12
    const full = this.isPast ? text : `${SIGN[open.verdict] ?? '…'} ${text}`
    this.text([full, full.split(', ')[0]].find(each => this.width(each) < room) ?? full, this.now + 9, lane.y + HEAD + lane.rowOf.get(span.id) * ROW + ROW / 2, this.model.kind(span))
  }

  /** What lies under a point. @param {number} x @param {number} y */
  at(x, y) {
    return this.hits.findLast(p => x >= p.x - 3 && x <= p.x + p.w + 3 && y >= p.y - 2 && y <= p.y + p.h + 2)
  }
}

/** A span's name in the address. */
export const keyOf = (lane, span) => `${lane.at}@${span.first ?? `m${span.marker}`}`

/** The legend's swatches. @param {HTMLCanvasElement} canvas @param {string} kind */
export function swatch(canvas, kind) {
  const g = canvas.getContext('2d'), style = getComputedStyle(document.documentElement), c = name => style.getPropertyValue(`--${name}`).trim()
  canvas.width = 26; canvas.height = 12
  const name = kind === 'hidden' ? 'committed' : kind === 'band' ? 'edge' : kind
  g.fillStyle = ['aborted', 'prepared', 'hanging'].includes(kind) ? pattern(g, c(kind), c('paper'), kind) : c(kind === 'band' ? 'band' : name)
  g.globalAlpha = kind === 'hidden' ? 0.3 : kind === 'progress' ? 0.25 : 1
  g.fillRect(0, 0, 26, 12); g.globalAlpha = 1
  g.fillStyle = c(name)
  if (kind === 'progress') for (const x of [5, 14]) g.fillRect(x, 0, 3, 12)
  g.strokeStyle = c(name); g.strokeRect(0.5, 0.5, 25, 11)
}
