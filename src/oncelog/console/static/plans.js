// Actions, where the console may act: a plan is shown, and done when its name was typed. The server looks again before.
// @ts-check
import { useEffect, useState } from './vendor/hooks.mjs'
import { ask, html } from './html.js'

let allowed = /** @type {Promise<boolean>|null} */ (null)
const mayWrite = () => allowed ??= ask('plans').then(each => each.may_write, () => { allowed = null; return false })

async function post(path, body) {
  const response = await fetch(`api/v1/${path}`, { method: 'POST', headers: { 'content-type': 'application/json', 'x-oncelog-console': '1' }, body: JSON.stringify(body) })
  return { status: response.status, body: await response.json() }
}

/** What may be done about a transaction: of a prepared one both outcomes, and none before the other's confirmation. */
function offers(row) {
  if (row.group) return [...new Set(row.rows.map(each => each.topic))].slice(0, 8).flatMap(topic => ['earliest', 'latest'].map(to => [`${topic} to ${to}`, { action: 'reset-offsets', group: row.group, topic, to }]))
  const producer = Number(row.producer_id)
  if (row.verdict === 'hanging') return row.open_on.slice(0, 8).map(at => [`abort on ${at}`, { action: 'abort', topic: at.slice(0, at.lastIndexOf('-')), partition: Number(at.slice(at.lastIndexOf('-') + 1)), producer_id: producer }])
  if (!row.transactional_id) return []
  const name = { transactional_id: row.transactional_id }
  if (row.verdict === 'two-phase') return ['commit', 'abort'].map(outcome => [`${outcome} as decided`, { action: 'complete', ...name, state: `${row.producer_id}:${row.producer_epoch}`, outcome }])
  return [['force-terminate', { action: 'force-terminate', ...name }]]
}

export function Act({ row }) {
  const [may, set] = useState(false), [plan, show] = useState(/** @type {any} */ (null)), [told, tell] = useState(''), [word, type] = useState('')
  useEffect(() => { let isGone = false; mayWrite().then(each => { if (!isGone) set(each) }); return () => { isGone = true } }, [])
  if (!may) return null
  const guarded = async body => { try { await body() } catch (e) { tell(`the console does not answer: ${e.message}`) } }
  const look = wanted => guarded(async () => { const { status, body } = await post('plans', wanted); show(status === 200 ? body : null); type(''); tell(status === 200 ? '' : `${body.message}${body.hint ? ` (${body.hint})` : ''}`) })
  const act = event => { event.preventDefault(); return guarded(async () => {
    const { status, body } = await post(`plans/${plan.id}`, { word })
    type('')
    if (status === 409) { show(body.plan); tell(body.message) } else { if (status === 200) show(null); tell(status === 200 ? `done: ${body.done}` : body.message) }
  }) }
  return html`<div class="act">${offers(row).map(([text, wanted]) => html`<button type="button" onClick=${() => look(wanted)}>${text} …</button>`)}
    ${plan && html`<form class="note bad" onSubmit=${act}>${plan.text.map(line => html`<p>${line}</p>`)}<p><code>${plan.command}</code></p>
      <label>type <b class="word">${plan.word}</b> to go on <input autocomplete="off" value=${word} onInput=${e => type(e.target.value)} /></label> <button type="submit">do it</button> <button type="button" onClick=${() => show(null)}>leave it</button></form>`}
    <p role="status">${told}</p></div>`
}
