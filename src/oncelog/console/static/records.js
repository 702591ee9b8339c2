// The page Records: a search is many small questions, so it shows what it has, and stops when it is told to.
// @ts-check
import { useEffect, useRef, useState } from './vendor/hooks.mjs'
import { Command, Missing, Table, ask, html, named } from './html.js'
import { clock } from './model.js'
import { go } from './routes.js'

const FIELDS = ['topic', 'partition', 'from', 'before', 'contains', 'key', 'where', 'hidden', 'control']
const LIMIT = 50, FOLLOW_MS = 2000, TAIL_MAX = 500
const SEEN = { plain: 'read by all', committed: 'committed: read by all', aborted: 'aborted: read_committed never sees it', 'held back': 'held back: behind the last stable offset', control: 'marker' }

/** Bytes as the server tells them: text, or base64. */
const text = data => data === null || data === undefined ? null : typeof data === 'string' ? data : atob(data.base64)
const bytes = data => data === null ? new Uint8Array() : typeof data === 'string' ? new TextEncoder().encode(data) : Uint8Array.from(atob(data.base64), c => c.charCodeAt(0))
const hex = data => [...bytes(data).slice(0, 4096)].map((b, i) => b.toString(16).padStart(2, '0') + (i % 16 === 15 ? '\n' : ' ')).join('')

/** A key or value in a form. @param {any} data @param {string} form */
export function shown(data, form) {
  if (data === null || data === undefined) return 'null'
  if (form === 'hex') return hex(data)
  if (form === 'json') try { return JSON.stringify(JSON.parse(text(data) ?? ''), null, 2) } catch { return String(text(data)) }
  return typeof data === 'string' ? data : `base64 ${data.base64}`
}

/** Ask on until there are enough rows, all is read, or somebody says stop. */
async function search(query, signal, tell) {
  const asked = new URLSearchParams(FIELDS.filter(each => query.get(each)).map(each => [each, query.get(each) ?? '']))
  const isBack = (query.get('from') || 'latest') === 'latest', isFilter = ['contains', 'key', 'where'].some(each => query.get(each))
  let rows = /** @type {any[]} */ ([]), records = 0, size = 0, span = LIMIT, older = 0
  for (let round = 0; round < 10000 && !signal.aborted; round++) {
    asked.set('limit', String(isBack ? Math.min(span, 200) : LIMIT - rows.length))
    let answer = await ask(`records?${asked}`, signal), part = answer.rows
    records += answer.records; size += answer.bytes
    while (isBack && !answer.is_end && !signal.aborted) { // the window that began here is read to its end first
      const rest = new URLSearchParams(asked)
      rest.set('from', answer.next_offset)
      rest.set('before', asked.get('before') || answer.high_watermark)
      const start = answer.start
      answer = { ...await ask(`records?${rest}`, signal), start }
      part = [...part, ...answer.rows]; records += answer.records; size += answer.bytes
    }
    rows = isBack ? [...part, ...rows] : [...rows, ...part]
    older = answer.start
    const isDone = isBack ? BigInt(answer.start) <= BigInt(answer.log_start) : answer.is_end
    tell({ ...answer, rows: isBack ? rows.slice(-LIMIT) : rows, records, bytes: size, older: rows.length > LIMIT && isBack ? rows.at(-LIMIT).offset : older, isDone, isRunning: !isDone && rows.length < LIMIT })
    if (isDone || rows.length >= LIMIT || answer.damaged) break
    if (isBack) { asked.set('before', answer.start); span = isFilter ? 200 : Math.min(200, 2 * span) } else asked.set('from', answer.next_offset)
  }
  return rows
}

export function Records({ query }) {
  const [found, set] = useState(/** @type {any} */ (null)), [error, fail] = useState(/** @type {any} */ (null)), [form, setForm] = useState('text'), [isFollowing, follow] = useState(false)
  const stop = useRef(new AbortController()), parameters = FIELDS.map(each => query.get(each) ?? '').join('\n'), topic = query.get('topic')
  const look = () => {
    stop.current.abort()
    const mine = stop.current = new AbortController()
    set(null); fail(null)
    search(query, mine.signal, each => { if (!mine.signal.aborted) set(each) }).catch(e => { if (!mine.signal.aborted) { fail(e); set(each => each && { ...each, isRunning: false }) } })
  }
  useEffect(() => { if (topic) look(); return () => stop.current.abort() }, [parameters])
  useEffect(() => { // what comes in, while somebody looks; a broker that is away is said, and asked again
    if (!isFollowing || !topic) return
    let isGone = false, timer = 0, next = found?.high_watermark, kept = found?.rows ?? []
    const turn = async () => {
      try {
        if (!document.hidden) {
          const asked = new URLSearchParams({ topic, partition: query.get('partition') || '0', from: next === undefined ? 'latest' : String(next), limit: '200' })
          for (const each of ['contains', 'key', 'where', 'hidden', 'control']) if (query.get(each)) asked.set(each, query.get(each) ?? '')
          const answer = await ask(`records?${asked}`)
          next = answer.next_offset; kept = [...kept, ...answer.rows].slice(-TAIL_MAX)
          if (!isGone) { set({ ...answer, rows: kept, isRunning: false, isDone: true, older: kept[0]?.offset ?? answer.start }); fail(null) }
        }
      } catch (e) { if (!isGone) fail(Object.assign(e, { isOld: true })) }
      if (!isGone) timer = setTimeout(turn, FOLLOW_MS)
    }
    turn()
    return () => { isGone = true; clearTimeout(timer) }
  }, [isFollowing, parameters])

  const submit = event => {
    event.preventDefault()
    const given = new FormData(event.target), changed = Object.fromEntries(FIELDS.map(each => [each, String(given.get(each) ?? '')]))
    const before = location.hash
    go('records', query, { ...changed, before: '' })
    if (location.hash === before) look()
  }
  const field = (name, label, more = {}) => html`<label>${label} <input name=${name} key=${query.get(name)} defaultValue=${query.get(name) ?? ''} ...${more} /></label>`
  return html`<h1>${topic ? `Records of ${topic}-${query.get('partition') || '0'}` : 'Records'}</h1><${Missing} error=${error} />
    <form class="tools" onSubmit=${submit}>
      ${field('topic', 'topic', { required: true })} ${field('partition', 'partition', { inputmode: 'numeric', size: 4 })}
      ${field('from', 'from', { placeholder: 'latest', list: 'froms', title: 'latest, earliest, an offset, or @ and a time (UTC), as in @2026-01-31T12:00' })}
      <datalist id="froms"><option value="latest" /><option value="earliest" /></datalist>
      ${field('contains', 'contains')} ${field('key', 'key is')} ${field('where', 'JSON field', { placeholder: 'customer.id = 7' })}
      <label><input type="checkbox" name="hidden" value="1" defaultChecked=${query.get('hidden') === '1'} key=${`h${query.get('hidden')}`} /> aborted and held back, too</label>
      <label><input type="checkbox" name="control" value="1" defaultChecked=${query.get('control') === '1'} key=${`c${query.get('control')}`} /> markers</label>
      <button type="submit">show</button>
    </form>
    ${topic && html`<div class="tools">
      <label>as <select id="form" value=${form} onChange=${e => setForm(e.target.value)}>${['text', 'json', 'hex'].map(each => html`<option>${each}</option>`)}</select></label>
      ${found?.isRunning && html`<button type="button" id="stop" onClick=${() => { stop.current.abort(); set({ ...found, isRunning: false }) }}>stop</button>`}
      ${found && html`<button type="button" disabled=${BigInt(found.older) <= BigInt(found.log_start)} onClick=${() => go('records', query, { before: String(found.older), from: '' })}>older</button>
        <button type="button" onClick=${() => go('records', query, { from: String(found.next_offset), before: '' })}>newer</button>
        <button type="button" id="follow" aria-pressed=${isFollowing} onClick=${() => follow(!isFollowing)}>follow</button>
        <button type="button" onClick=${() => save(found)}>download</button>`}
      <span id="progress" role="status" class="mute">${found ? progress(found) : error ? '' : 'looking …'}</span></div>`}
    ${found?.is_masked && html`<p class="note">what this console masks never left its server</p>`}
    ${found?.damaged && html`<p class="note bad" role="alert">${found.damaged}</p>`}
    ${found && html`<${Table} name="Records" empty=${found.isRunning ? 'nothing yet' : 'no record here is what you look for'} rows=${found.rows} columns=${[
      ['offset', r => r.offset, 'number'], ['time', r => r.timestamp_ms < 0 ? 'none' : new Date(r.timestamp_ms).toISOString().replace('T', ' ').replace('Z', ''), 'time'],
      ['seen', r => html`<span class=${`seen ${r.seen.replace(' ', '-')}`} title=${SEEN[r.seen]}>${r.seen}</span>`],
      ['transactional id', r => r.transactional_id === undefined || r.transactional_id === null ? r.producer_id === -1 ? 'none' : `producer ${r.producer_id}:${r.producer_epoch}` : html`<a href=${`#/history?${new URLSearchParams({ id: r.transactional_id })}`}>${named(r.transactional_id)}</a>`, 'id'],
      ['key', r => html`<${Data} data=${r.key} form=${form} />`, 'id'],
      ['value', r => r.type ? html`<b>${r.type}</b> <${Data} data=${r.content ? JSON.stringify(r.content) : r.coordinator_epoch === undefined ? '' : `coordinator epoch ${r.coordinator_epoch}`} form=${form} />` : r.not_decoded ? `not decoded: ${r.not_decoded}` : html`<${Data} data=${r.value} form=${form} size=${r.value_bytes} />${r.is_cut && html`<${Whole} found=${found} row=${r} form=${form} />`}`],
      ['headers', r => (r.headers ?? []).map(([name, value]) => html`<div>${name}: ${shown(value, 'text')}</div>`), 'id'],
    ]} /><p class="mute">The same on the command line:</p><${Command} text=${`${found.command[0]} --from ${found.rows[0]?.offset ?? found.start} -c ${Math.max(1, found.rows.length)} -o jsonl${query.get('hidden') === '1' ? ' --isolation read_uncommitted' : ''} ${found.command[1]}`} />`}`
}

const progress = found => `${found.rows.length} shown of ${found.records} looked at, ${(found.bytes / 1e6).toFixed(1)} MB; offsets ${found.log_start} to ${found.high_watermark}, stable to ${found.last_stable_offset}${found.isRunning ? '; searching …' : found.isDone ? '' : '; there is more'} (${clock(found.now_ms)})`

const Data = ({ data, form, size }) => {
  const told = shown(data, form)
  return html`<pre class=${data === null ? 'mute' : ''}>${told}</pre>${size > 2048 ? html`<span class="mute">${size} bytes</span>` : ''}`
}

/** All of a record that was cut. */
function Whole({ found, row, form }) {
  const [all, set] = useState(/** @type {any} */ (null))
  const look = async () => {
    const asked = new URLSearchParams({ topic: found.topic, partition: found.partition, from: row.offset, limit: '1', hidden: '1', whole: '1' })
    try { set((await ask(`records?${asked}`)).rows[0]?.value ?? 'it is not there any more') } catch (e) { set(e.message) }
  }
  return all === null ? html`<button type="button" onClick=${look}>all of it</button>` : html`<pre class="all" tabindex="0">${shown(all, form)}</pre>`
}

/** JSON lines of what is shown. */
function save(found) {
  const lines = found.rows.map(row => JSON.stringify({ topic: found.topic, partition: found.partition, ...row })).join('\n')
  const link = Object.assign(document.createElement('a'), { href: URL.createObjectURL(new Blob([`${lines}\n`], { type: 'application/jsonl' })), download: `${found.topic}-${found.partition}.jsonl` })
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10000)
}
