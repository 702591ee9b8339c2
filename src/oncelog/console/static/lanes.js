// The page Lanes: the picture with live data, and beside it who holds readers back.
// @ts-check
import { useEffect, useRef, useState } from './vendor/hooks.mjs'
import { Drawing, keyOf, swatch } from './drawing.js'
import { Canvas, Command, Missing, Said, Table, ask, html, named } from './html.js'
import { KIND, Model, OPEN, age, clock } from './model.js'
import { go } from './routes.js'
import { addressOf, momentOf, readable } from './times.js'

const WINDOWS = [15, 30, 75, 180, 600, 1800, 3600]
const LEGEND = [
  ['committed', 'committed'], ['aborted', 'aborted'], ['progress', 'in progress, with its batches'], ['prepared', 'prepared, in doubt'],
  ['hanging', 'hanging'], ['band', 'written, but behind the LSO'], ['hidden', 'decided, and nobody can read it yet'],
]
const CAUSE = { 'hanging transaction': 'hanging', 'prepared transaction': 'prepared', 'open transaction': 'progress', 'unknown owner': 'progress', 'marker stuck': 'progress', open: 'progress', committed: 'committed', aborted: 'aborted' }

/** One answer about a time that is over; who goes on before it comes is not kept waiting. Null: nothing is asked. */
function usePast(parameters, take) {
  const [error, set] = useState(/** @type {any} */ (null))
  useEffect(() => {
    set(null)
    if (parameters === null) return
    const stop = new AbortController()
    const look = async () => {
      try { const found = await ask(`lanes?${parameters}`, stop.signal); take(found); set(null) } catch (e) {
        if (stop.signal.aborted) return
        set(e)
        if (e.status === 202) timer = setTimeout(look, 500)
      }
    }
    let timer = setTimeout(look, 150) // keys come faster than answers
    return () => { stop.abort(); clearTimeout(timer) }
  }, [parameters])
  return error
}

const NEWS_WITHIN_MS = 3500 // one comes each second

/** A stream of the server's answers, closed while nobody sees the page. Null: no stream. */
function useLanes(parameters, take) {
  const [trouble, set] = useState(/** @type {string|null} */ (null))
  useEffect(() => {
    set(null)
    if (parameters === null) return
    let stream = /** @type {EventSource|null} */ (null), heardMs = 0
    const late = setInterval(() => { if (stream && heardMs && Date.now() - heardMs > NEWS_WITHIN_MS) set('Nobody has answered for a moment') }, 1000)
    const open = () => {
      if (stream || document.hidden) return
      stream = new EventSource(`api/v1/events?${parameters}`)
      stream.addEventListener('lanes', event => { heardMs = Date.now(); set(null); take(JSON.parse(event.data)) })
      stream.addEventListener('error', () => {
        set('the console does not answer: it is asked again')
        if (stream?.readyState !== EventSource.CLOSED) return
        close(); setTimeout(open, 3000)
        ask(`lanes?${parameters}`).catch(e => set(e.message)) // a stream that is refused does not say why
      })
    }
    const close = () => { stream?.close(); stream = null; heardMs = 0 }
    const turn = () => document.hidden ? close() : open()
    document.addEventListener('visibilitychange', turn)
    open()
    return () => { document.removeEventListener('visibilitychange', turn); clearInterval(late); close() }
  }, [parameters])
  return trouble
}

export function Lanes({ query }) {
  const windowMs = Math.min(3600, Math.max(5, Math.round(Number(query.get('window'))) || 75)) * 1000
  const canvas = useRef(null), drawing = useRef(/** @type {Drawing|null} */ (null)), model = useRef(new Model()), frame = useRef(0)
  const selected = query.get('at'), [version, tick] = useState(0), [isTable, setTable] = useState(false)
  const time = query.get('time') ?? '', known = useRef({ time: '', ms: /** @type {number|null} */ (null) }), [bad, setBad] = useState({ text: '', why: '' })
  if (known.current.time !== time) known.current = { time, ms: momentOf(time, Date.now()) } // "-15m" is one moment, not another in each frame
  const moment = known.current.ms, isPast = moment !== null, isByOffset = query.get('axis') === 'offset'
  const asked = { topic: query.get('topic') ?? '', partition: query.get('partition') ?? '' }, half = windowMs / 2
  const parameters = new URLSearchParams(isPast ? { ...asked, from_ms: String(moment - half), at_ms: String(moment), to_ms: String(moment + half) } : { ...asked, window_ms: String(windowMs) }).toString()
  const first = useRef(''), good = useRef(0)
  if (first.current !== parameters) { first.current = parameters; model.current = new Model(); good.current = 0 }

  const paint = () => {
    if (!drawing.current || !model.current.answer) return
    drawing.current.draw(model.current, { nowMs: isPast ? moment + half : Date.now() - model.current.offsetMs, windowMs, selected, atMs: moment, isByOffset })
    if (drawing.current.hits.length) drawing.current.canvas.dataset.spans = String(drawing.current.hits.length)
    Object.assign(window, { __lanes: drawing.current.hits.map(p => ({ x: p.x, y: p.y, w: p.w, h: p.h, lane: p.lane.at, first: p.span.first, name: model.current.name(p.span), kind: model.current.kind(p.span) })) })
  }
  const take = answer => { if (first.current === parameters) { if (!answer.error) good.current = answer.now_ms; model.current.take(answer, Date.now()); tick(n => n + 1) } }
  const trouble = useLanes(isPast ? null : parameters, take), gone = usePast(isPast && !Number.isNaN(moment) ? parameters : null, take)
  useEffect(() => {
    drawing.current = new Drawing(canvas.current)
    const scheme = matchMedia('(prefers-color-scheme: dark)'), retheme = () => { drawing.current?.theme(); paint() }
    scheme.addEventListener('change', retheme)
    return () => scheme.removeEventListener('change', retheme)
  }, [])
  useEffect(() => { // time moves the picture; who wants less motion gets a frame with each answer
    paint()
    if (isPast || matchMedia('(prefers-reduced-motion: reduce)').matches) return
    let last = 0
    const next = ms => { if (ms - last > 100) { last = ms; paint() } frame.current = requestAnimationFrame(next) }
    frame.current = requestAnimationFrame(next)
    return () => cancelAnimationFrame(frame.current)
  }, [version, selected, windowMs, parameters, isByOffset])
  useEffect(() => { // whoever is sent the address sees the same time
    if (isPast && !Number.isNaN(moment) && time !== addressOf(moment)) { known.current.time = addressOf(moment); go('lanes', query, { time: addressOf(moment) }) }
  }, [time])
  useEffect(() => { addEventListener('resize', paint); return () => removeEventListener('resize', paint) })

  const pick = hit => go('lanes', query, { at: hit ? keyOf(hit.lane, hit.span) : '' })
  const zoom = step => { const i = WINDOWS.findIndex(s => s * 1000 >= windowMs); go('lanes', query, { window: String(WINDOWS[Math.min(WINDOWS.length - 1, Math.max(0, i + step))]) }) }
  const move = step => {
    const at = (moment ?? Date.now() - model.current.offsetMs - half) + step * half, seconds = Math.round(at / 1000) * 1000
    go('lanes', query, { time: at + half > Date.now() + 1000 ? '' : addressOf(seconds) })
  }
  const type = event => {
    const ms = momentOf(event.target.value, Date.now())
    const why = Number.isNaN(ms) ? 'say a time as 03:12, 03:12:30, 2026-01-31 03:12 or -15m: UTC' : ms !== null && ms > Date.now() ? 'that time has not come yet' : ''
    setBad({ text: why && event.target.value, why })
    if (!why) go('lanes', query, { time: ms === null ? '' : addressOf(ms), at: '' })
  }
  const turn = () => go('lanes', query, { axis: isByOffset ? '' : 'offset' })
  const isHolder = ({ lane, span }) => isPast ? lane.held.some(([first]) => first === span.first) : span.outcome === OPEN && String(lane.holder) === span.id
  const keys = event => {
    const hits = drawing.current?.hits ?? [], i = hits.findIndex(p => keyOf(p.lane, p.span) === selected), d = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key]
    if (d && hits.length) pick(hits[i < 0 ? (d > 0 ? 0 : hits.length - 1) : (i + d + hits.length) % hits.length])
    else if (event.key === 'b') { const open = hits.filter(isHolder), at = open.findIndex(p => keyOf(p.lane, p.span) === selected); if (open.length) pick(open[(at + 1) % open.length]) }
    else if (event.key === '+') zoom(-1)
    else if (event.key === '-') zoom(1)
    else if (event.key === '0') go('lanes', query, { window: '75', at: '', time: '' })
    else if (event.key === 'e') move(-1)
    else if (event.key === 'l' && isPast) move(1)
    else if (event.key === 'o') turn()
    else if (event.key === 'Escape') pick(null)
    else return
    event.preventDefault()
  }
  const answer = model.current.answer, now = isPast ? moment : answer ? Date.now() - model.current.offsetMs : 0
  const found = model.current.lanes.flatMap(lane => [...lane.done, ...lane.open].map(span => ({ lane, span }))).find(each => keyOf(each.lane, each.span) === selected)
  const detail = found ? model.current.tell(found.lane, found.span, now) : ''
  const verdict = answer?.verdict ?? (Number.isNaN(moment) ? 'Which time?' : isPast ? gone ? 'Not known' : `reading ${readable(moment)} …` : 'looking …')
  const off = model.current.lanes.filter(each => each.clock_off)
  return html`
    <h1 id="verdict">${verdict}</h1><${Said} text=${verdict} />
    <${Missing} rows=${answer?.not_read} error=${gone ?? (trouble ? { message: trouble, isOld: answer !== null, sinceMs: good.current } : answer?.error && { ...answer.error, isOld: true, sinceMs: good.current })} />
    ${(bad.why || Number.isNaN(moment)) && html`<p class="note bad" role="alert">“${bad.text || time}”: ${bad.why || 'that is no time; 2026-01-31T03:12:00Z is one'}</p>`}
    ${answer?.notes?.map(note => html`<p class="note">${note}</p>`)}
    ${off.length > 0 && !isByOffset && html`<p class="note" id="clocks">${off[0].at}: records of ${off[0].clock_off.who} say a time ${apart(off[0].clock_off.off_ms)} they came${off.length > 1 ? `, and so on ${off.length - 1} more partition${off.length > 2 ? 's' : ''}` : ''}: by time they are not where they belong. <button type="button" onClick=${turn}>show by offset</button></p>`}
    <div class="tools">
      <label>topics <input name="topic" placeholder="all" key=${`t${query.get('topic')}`} defaultValue=${query.get('topic') ?? ''} onChange=${e => go('lanes', query, { topic: e.target.value.trim(), at: '' })} /></label>
      <label>window <select onChange=${e => go('lanes', query, { window: e.target.value })}>${WINDOWS.map(s => html`<option value=${s} selected=${s * 1000 === windowMs}>${age(s * 1000)}</option>`)}</select></label>
      <label>time <input name="time" size="19" placeholder="now; or 03:12" key=${`m${time}`} defaultValue=${isPast && !Number.isNaN(moment) ? readable(moment) : time} onChange=${type} /></label>
      <span class="group"><button type="button" id="earlier" onClick=${() => move(-1)}>◀ earlier</button><button type="button" id="later" disabled=${!isPast} onClick=${() => move(1)}>later ▶</button><button type="button" id="now" aria-pressed=${!isPast} onClick=${() => go('lanes', query, { time: '' })}>now</button></span>
      <button type="button" id="by-offset" aria-pressed=${isByOffset} onClick=${turn}>by offset</button>
      <button type="button" id="as-table" aria-pressed=${isTable} onClick=${() => setTable(!isTable)}>as a table</button>
      <span class="mute">${answer?.left_out ? `${answer.left_out} partitions are not shown: name topics; what is held back is shown first. ` : ''}arrow keys: transactions, b: next blocker, + - zoom, e l: earlier, later, o: by offset, 0: back to now. UTC</span>
    </div>
    <div class="lanes">
      <div>
        <canvas ref=${canvas} tabindex="0" role="img" id="lanes" aria-label=${`Transaction lanes of ${model.current.lanes.length} partitions. ${verdict}. Arrow keys go through transactions.`}
          onKeyDown=${keys} onClick=${e => pick(drawing.current?.at(e.offsetX, e.offsetY))}></canvas>
        <p id="detail">${detail}</p><${Said} text=${detail} />
        <ul class="key" aria-label="What the marks mean">${LEGEND.map(([kind, text]) => html`<li><${Canvas} draw=${c => swatch(c, kind)} aria-hidden="true" />${text}</li>`)}
          <li>▲ a group's position</li><li>A, B …: one transaction, in every lane</li></ul>
        ${isTable && html`<${AsTable} model=${model.current} now=${now} />`}
      </div>
      <aside aria-label="Who holds readers back"><h2>${isPast ? 'Who held readers back' : 'Who holds readers back'}</h2>${answer && html`<${Cards} causes=${answer.causes} lanes=${model.current.lanes} isPast=${isPast} isPart=${answer.not_read.length > 0 || answer.left_out > 0} />`}
        ${isPast && html`<p class="mute">Where groups stood then is not known.</p>`}</aside>
    </div>`
}

/** The cards: rows of `oncelog why`, with the picture's letter. */
export const Cards = ({ causes, lanes, isPast, isPart }) => html`<ul class="cards">
  ${causes.map(each => html`<li class=${`card ${CAUSE[each.kind] ?? 'trouble'}`} key=${each.what}>
    ${each.letter && html`<span class="badge">${each.letter}</span>`}<b>${each.transactional_id === null ? each.producer_id === null ? each.group ? named(each.group) : each.kind : `producer ${each.producer_id}` : named(each.transactional_id)}</b>
    <p>${each.what}</p>
    ${each.age_ms !== null && html`<p class="mute">${each.kind} for ${age(each.age_ms)}${each.producer_id === null ? '' : `; producer ${each.producer_id}:${each.producer_epoch}${each.open_on?.length ? ', from ' : ''}${(each.open_on ?? []).slice(0, 4).map(p => `${p.topic}-${p.partition} ${p.start_offset ?? ''}`).join(', ')}`}</p>`}
    ${each.groups?.length > 0 && html`<p><b>waiting</b> ${each.groups.join(', ')}</p>`}
    <p>${each.why}</p><p class="mute">${each.advice}</p>${each.command && html`<${Command} text=${each.command} />`}</li>`)}
  ${causes.length === 0 && html`<li class=${`card ${lanes?.length === 0 || isPart ? '' : 'calm'}`}>${isPast && lanes.some(each => each.word !== 'unreadable') ? 'Nobody for longer than 10 s, of what the log tells.' : nobody(lanes, isPart)}</li>`}
</ul>`

const nobody = (lanes, isPart) => {
  const is = word => lanes?.some(each => each.word === word)
  if (lanes?.every(each => each.word === 'unreadable')) return lanes.length ? 'Nothing can be read, so nobody knows.' : 'Nothing is looked at, so nobody knows.'
  if (is('stopped')) return 'Somebody does; whose transaction it is, is being asked: what seems to hang is looked at twice, five seconds apart.'
  return `${is('waiting') ? 'Nobody yet: what waits is young.' : isPart ? 'Nobody holds back what was looked at, which is not all.' : 'Nobody.'} Transactions shorter than 10 s are normal.`
}

const apart = ms => `${age(Math.abs(ms))} ${ms > 0 ? 'after' : 'before'}`

const AsTable = ({ model, now }) => html`<h2>Open transactions and the last that ended</h2><${Table} name="Transactions as a table" empty="no transactions in this time"
  rows=${model.lanes.flatMap(lane => [...lane.open, ...lane.done.slice(-10).reverse()].map(span => ({ lane, span })))}
  columns=${[
    ['partition', r => r.lane.at], ['transactional id', r => model.name(r.span)], ['producer', r => `${r.span.id}:${r.span.epoch}`],
    ['is', r => r.span.outcome === OPEN ? model.open.get(r.span.id)?.verdict : model.kind(r.span)], ['first offset', r => r.span.first, 'number'], ['records', r => r.span.records, 'number'],
    ['since', r => r.span.begin === null ? 'before' : clock(r.span.begin)], ['for', r => age((r.span.end ?? now) - (r.span.begin ?? r.span.end ?? now)), 'number'], ['marker', r => r.span.marker, 'number'],
  ]} />`

export { KIND }
