// What the server tells, kept together: lanes with their spans. No drawing, no DOM.
// @ts-check

export const OPEN = 0, COMMITTED = 1, ABORTED = 2

/** An age for a person: 59s, 4m12s, 3h05m. @param {number} ms */
export const age = ms => {
  const s = Math.max(0, Math.floor(ms / 1000)), two = n => String(n).padStart(2, '0')
  if (s < 60) return `${s}s`
  if (s < 3600) return `${Math.floor(s / 60)}m${two(s % 60)}s`
  if (s < 86400) return `${Math.floor(s / 3600)}h${two(Math.floor(s / 60) % 60)}m`
  return `${Math.floor(s / 86400)}d${two(Math.floor(s / 3600) % 24)}h`
}

/** A time of day, UTC. @param {number} ms */
export const clock = ms => new Date(Math.max(-8.64e15, Math.min(8.64e15, ms))).toISOString().slice(11, 19) // whoever writes a record chooses its time

/** How a verdict is drawn. */
export const KIND = { 'in progress': 'progress', ending: 'progress', unknown: 'progress', 'two-phase': 'prepared', hanging: 'hanging' }

export class Model {
  constructor() {
    this.lanes = /** @type {any[]} */ ([])
    this.byName = new Map()
    this.names = new Map()
    this.open = new Map()
    this.answer = null
    this.offsetMs = 0 // this clock minus the server's
    this.isPast = false
  }

  /** Take an answer of /api/v1/lanes or an event. @param {any} answer @param {number} nowMs */
  take(answer, nowMs) {
    this.answer = answer
    this.offsetMs = nowMs - answer.now_ms
    this.names = new Map(answer.producers.map(([id, name]) => [String(id), name]))
    this.open = new Map(answer.open.map(each => [String(each.producer_id), each]))
    this.isPast = answer.to_ms !== undefined
    const since = answer.since_ms, found = new Map()
    for (const each of answer.partitions) {
      const at = `${each.topic}-${each.partition}`
      const lane = (!answer.is_whole && this.byName.get(at)) || { at, done: [], plain: [], markers: new Set(), rows: [] }
      Object.assign(lane, { ...each, spans: null, plain: lane.plain })
      this.#spans(lane, each.spans, since)
      each.plain.at_ms.forEach((ms, i) => lane.plain.push({ ms: ms + since, offset: Number(each.plain.offset[i]), records: each.plain.records[i] }))
      this.#forget(lane, since)
      lane.then = this.isPast ? [...lane.done, ...lane.open].filter(span => this.open.get(span.id)?.on.some(([where, first]) => where === at && first === span.first)) : lane.open
      found.set(at, lane)
    }
    this.byName = found
    this.#order([...found.values()])
  }

  #spans(lane, columns, since) {
    lane.open = []
    for (let i = 0; i < columns.producer.length; i++) {
      const outcome = columns.outcome[i]
      const span = {
        id: String(columns.producer[i]), epoch: columns.epoch[i], first: columns.first[i], last: columns.last[i],
        records: columns.records[i], bytes: columns.bytes[i], outcome, merged: columns.merged[i], isBeginKnown: columns.begin_known[i],
        begin: columns.begin[i] === null ? null : columns.begin[i] + since,
        end: columns.end[i] === null ? null : columns.end[i] + since,
        marker: columns.marker[i], markerEpoch: columns.marker_epoch[i],
        ticks: (columns.ticks[i] ?? []).map(ms => ms + since),
      }
      if (outcome === OPEN) lane.open.push(span)
      else if (!lane.markers.has(span.marker)) { lane.markers.add(span.marker); lane.done.push(span) }
    }
  }

  #forget(lane, since) {
    while (lane.done.length && lane.done[0].end < since) lane.markers.delete(lane.done.shift().marker)
    while (lane.plain.length && lane.plain[0].ms < since) lane.plain.shift()
    // Rows keep their place while data flows: nothing jumps under the pointer.
    const here = new Set([...lane.open, ...lane.done].map(each => each.id))
    lane.rows = [...lane.rows.filter(id => here.has(id)), ...[...here].filter(id => !lane.rows.includes(id))]
  }

  /** Stopped lanes on top, the oldest first; the order changes only when the set of stopped lanes does. */
  #order(lanes) {
    const stopped = lanes.filter(each => each.word === 'stopped')
    const key = stopped.map(each => each.at).sort().join() + '|' + lanes.map(each => each.at).sort().join()
    if (key !== this.orderKey) {
      this.orderKey = key
      const rank = each => each.word === 'stopped' ? each.lso_ms ?? 0 : Infinity
      this.orderOf = new Map(lanes.slice().sort((a, b) => rank(a) - rank(b) || compare(a, b)).map((each, i) => [each.at, i]))
    }
    this.lanes = lanes.sort((a, b) => this.orderOf.get(a.at) - this.orderOf.get(b.at))
  }

  /** @param {{id: string}} span */
  name(span) { return this.names.get(span.id) ?? `producer ${span.id}` }

  /** Who kept a span that is decided from readers: in the past its holder as [first offset, marker, begin, end, producer]. */
  hiddenBy(lane, span) {
    if (this.isPast) return lane.held.find(([first, marker]) => span.marker > first && (marker === null || span.marker < marker))
    return lane.blocked && span.marker >= lane.lso ? [lane.lso, null, null, null] : undefined
  }

  /** How a span is drawn: committed, aborted, progress, prepared, hanging. @param {any} span */
  kind(span) {
    if (span.outcome !== OPEN) return span.outcome === COMMITTED ? 'committed' : 'aborted'
    return KIND[this.open.get(span.id)?.verdict] ?? 'progress'
  }

  /** All that is known of a span, in one line. @param {any} lane @param {any} span @param {number} nowMs */
  tell(lane, span, nowMs) {
    const open = this.open.get(span.id), many = span.merged > 1 ? `${span.merged} transactions, ` : ''
    const what = span.outcome === OPEN ? (open?.verdict ?? 'open') : span.outcome === COMMITTED ? 'committed' : 'aborted'
    const count = span.records === null ? 'records from' : `${span.records} record${span.records === 1 ? '' : 's'} from`
    const from = span.first === null ? 'began before the window' : `${count} offset ${span.first}${span.isBeginKnown ? '' : ' or before'}${span.last === null ? '' : ` to ${span.last}`}`
    const end = span.outcome === OPEN
      ? `no marker${span.begin === null ? '' : ` for ${age(nowMs - span.begin)}`}`
      : `marker at ${span.marker} (producer epoch ${span.markerEpoch})${span.begin === null ? '' : ` after ${lasting(span.end - span.begin)}`}`
    const by = span.outcome === OPEN ? undefined : this.hiddenBy(lane, span)
    const unread = !by ? '' : !this.isPast ? '; behind the last stable offset: nobody can read it yet' : `; nobody could read it ${by[3] === null ? 'yet' : `before ${clock(by[3])}`}: readers stood at ${by[0]}`
    return `${lane.at}: ${this.name(span)}, producer ${span.id}:${span.epoch}: ${many}${what}; ${from}${span.records === null ? '' : `, ${span.bytes} bytes`}; ${end}${unread}`
  }
}

/** @param {number} ms */
const lasting = ms => ms < 10000 ? `${ms} ms` : age(ms)
const compare = (a, b) => a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : a.partition - b.partition
