// Actions, where the console may act: a plan is shown, and done when its name was typed. The server looks again before.
// @ts-check
import { useEffect, useState } from './vendor/hooks.mjs'
import { Command, Table, ask, html } from './html.js'

let allowed = /** @type {Promise<boolean>|null} */ (null)
const mayWrite = () => allowed ??= ask('plans').then(each => each.may_write, () => { allowed = null; return false })

async function post(path, body) {
  const response = await fetch(`api/v1/${path}`, { method: 'POST', headers: { 'content-type': 'application/json', 'x-oncelog-console': '1' }, body: JSON.stringify(body) })
  return { status: response.status, body: await response.json() }
}

/** What may be done about a transaction: of a prepared one both outcomes, and none before the other's confirmation. */
function offers(row) {
  const producer = Number(row.producer_id)
  if (row.verdict === 'hanging') return row.open_on.slice(0, 8).map(at => [`abort on ${at}`, { action: 'abort', topic: at.slice(0, at.lastIndexOf('-')), partition: Number(at.slice(at.lastIndexOf('-') + 1)), producer_id: producer }])
  if (!row.transactional_id) return []
  const name = { transactional_id: row.transactional_id }
  if (row.verdict === 'two-phase') return ['commit', 'abort'].map(outcome => [`${outcome} as decided`, { action: 'complete', ...name, state: `${row.producer_id}:${row.producer_epoch}`, outcome }])
  return [['force-terminate', { action: 'force-terminate', ...name }]]
}

const AT = { offset: 'offset', time: 'time (UTC)' }

/** Where a group's positions go: of one of its topics, all partitions or one. */
function Move({ row, look }) {
  const topics = [...new Set(row.rows.map(each => each.topic))], [given, set] = useState({ topic: '', partition: '-1', to: 'earliest', at: '' })
  if (topics.length === 0) return null
  const topic = topics.includes(given.topic) ? given.topic : topics[0], numbers = row.rows.filter(each => each.topic === topic).map(each => String(each.partition))
  const partition = numbers.includes(given.partition) ? given.partition : '-1'
  const choice = (label, name, value, options) => html`<label>${label} <select value=${value} onChange=${e => set({ ...given, [name]: e.target.value })}>${options.map(([each, text]) => html`<option value=${each} selected=${each === value}>${text}</option>`)}</select></label>`
  const submit = event => { event.preventDefault(); look({ action: 'reset-offsets', group: row.group, topic, partition: Number(partition), to: given.to, at: AT[given.to] ? given.at : '' }) }
  return html`<form class="tools" aria-label=${`Move positions of ${row.group}`} onSubmit=${submit}>
    ${choice('move', 'topic', topic, topics.map(each => [each, each]))} ${choice('partition', 'partition', partition, [['-1', 'all'], ...numbers.map(each => [each, each])])}
    ${choice('to', 'to', given.to, [['earliest', 'earliest'], ['latest', 'latest'], ['time', 'a time'], ['offset', 'an offset']])}
    ${AT[given.to] && html`<label>${AT[given.to]} <input required key=${given.to} value=${given.at} placeholder=${given.to === 'time' ? '2026-01-31T12:00' : '0'} onInput=${e => set({ ...given, at: e.target.value })} /></label>`}
    <button type="submit">plan …</button></form>`
}

/** What a plan does to each, or what became of each. */
const Each = ({ name, table }) => table.rows?.length > 0 && html`<${Table} name=${name} columns=${table.columns.map((title, i) => [title, r => r[i], i ? '' : 'id'])} rows=${table.rows} />${table.more && html`<p class="mute">${table.more}</p>`}`

export function Act({ row, wanted }) {
  const [may, set] = useState(/** @type {boolean|null} */ (null)), [plan, show] = useState(/** @type {any} */ (null)), [told, tell] = useState(/** @type {any} */ ({ text: '' })), [word, type] = useState('')
  useEffect(() => { let isGone = false; mayWrite().then(each => { if (!isGone) set(each) }); return () => { isGone = true } }, [])
  if (!may) return may === false && row.reset && row.rows.length > 0 ? html`<p class="mute">This shows where its positions would go; without --dry-run it moves them.</p><${Command} text=${row.reset} />` : null
  const guarded = async body => { try { await body() } catch (e) { tell({ text: `the console does not answer: ${e.message}` }) } }
  const look = wanted => guarded(async () => { const { status, body } = await post('plans', wanted); show(status === 200 ? body : null); type(''); tell({ text: status === 200 ? '' : `${body.message}${body.hint ? ` (${body.hint})` : ''}` }) })
  const act = event => { event.preventDefault(); return guarded(async () => {
    const { status, body } = await post(`plans/${plan.id}`, { word })
    type('')
    if (status === 409) show(body.plan); else if (status === 200 || body.rows) show(null)
    tell({ ...body, text: status === 200 ? `done: ${body.done}` : body.message })
  }) }
  return html`<div class="act">${row.group ? html`<${Move} row=${row} look=${look} />` : (wanted ?? offers(row)).map(([text, each]) => html`<button type="button" onClick=${() => look(each)}>${text} …</button>`)}
    ${plan && html`<form class="note bad" onSubmit=${act}>${plan.text.map(line => html`<p>${line}</p>`)}<${Each} name="What will be done" table=${plan} /><p><code>${plan.command}</code></p>
      <label>type <b class="word">${plan.word}</b> to go on <input autocomplete="off" value=${word} onInput=${e => type(e.target.value)} /></label> <button type="submit">do it</button> <button type="button" onClick=${() => show(null)}>leave it</button></form>`}
    <p role="status">${told.text}</p><${Each} name="What became of each" table=${told} /></div>`
}
