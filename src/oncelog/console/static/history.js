// The pages Transactional id (a life as a picture) and Decisions (what Spark queries decided).
// @ts-check
import { Command, Missing, Table, html, looking, named, ofAll, useData } from './html.js'
import { Cards } from './lanes.js'
import { age } from './model.js'
import { go } from './routes.js'

const when = ms => new Date(ms).toISOString().replace('T', ' ').replace('Z', '')
const link = id => `#/history?${new URLSearchParams({ id })}`
const Find = ({ page, query, name, label }) => html`<form class="tools" onSubmit=${event => { event.preventDefault(); go(page, new URLSearchParams(), { [name]: event.target.elements[name].value }) }}>
  <label>${label} <input name=${name} key=${query.get(name)} defaultValue=${query.get(name) ?? ''} /></label><button type="submit">show</button></form>`
const kindOf = event => /abort|timeout|fence|terminate/i.test(event) ? 'abort' : /commit/i.test(event) ? 'commit' : /ongoing/i.test(event) ? 'ongoing' : 'other'

/** The producer epoch over time, one step for each change; a new producer id begins anew, with a line. Even steps: what lasts
 * months and what lasts a millisecond are both there to be seen. */
function Steps({ rows }) {
  const known = rows.filter(each => each.producer_epoch !== null && each.producer_epoch !== undefined).slice(-60).map(each => ({ ...each }))
  // Who asks for an end names the epoch that the end itself has raised already, and is told later: an epoch never falls.
  known.forEach((each, i) => { const before = known[i - 1]; if (before?.producer_id === each.producer_id) each.producer_epoch = Math.max(each.producer_epoch, before.producer_epoch) })
  if (!known.length) return null
  const width = 900, height = 170, left = 46, top = 16, low = Math.min(...known.map(r => r.producer_epoch)), high = Math.max(...known.map(r => r.producer_epoch), low + 1)
  const x = i => left + (i + 0.5) * (width - left - 10) / known.length, y = epoch => height - 30 - (epoch - low) / (high - low) * (height - 30 - top - 8)
  const line = known.map((r, i) => i === 0 ? `M${x(0)} ${y(r.producer_epoch)}` : known[i - 1].producer_id === r.producer_id ? `H${x(i)}V${y(r.producer_epoch)}` : `M${x(i)} ${y(r.producer_epoch)}`).join('')
  return html`<svg class="steps" viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${`Producer epochs from ${low} to ${high} over ${known.length} events; the table below has them all`}>
    <text x="4" y=${y(high) + 4}>${high}</text><text x="4" y=${y(low) + 4}>${low}</text><text x="4" y=${height - 6}>epoch</text>
    <path class="line" d=${line} />
    ${known.map((r, i) => html`<g class=${kindOf(r.event)}><title>${`${when(r.time_ms)} ${r.event} producer ${r.producer_id}:${r.producer_epoch}`}</title>
      ${i > 0 && known[i - 1].producer_id !== r.producer_id && html`<path class="line" stroke-dasharray="3 3" d=${`M${x(i) - 6} ${top}V${height - 24}`} />`}
      ${kindOf(r.event) === 'abort' ? html`<rect x=${x(i) - 5} y=${y(r.producer_epoch) - 5} width="10" height="10" />` : html`<circle cx=${x(i)} cy=${y(r.producer_epoch)} r=${kindOf(r.event) === 'other' ? 3 : 5} />`}</g>`)}
    <text x=${left} y=${height - 6}>${when(known[0].time_ms)}</text><text x=${width - 10} y=${height - 6} text-anchor="end">${when(known.at(-1).time_ms)}</text></svg>
    <ul class="key"><li>● blue: began; ● green: committed</li><li>■ aborted, timed out, fenced</li><li>• small: other</li><li>dashed: a new producer id</li></ul>`
}

export function History({ query }) {
  const id = query.get('id') ?? '', part = query.get('contains') ?? ''
  const { data, error } = useData(`history?${new URLSearchParams(id ? { id } : { contains: part })}`, id ? 10 : 15)
  const mine = data && (data.id ?? '') === id ? data : null
  if (!id) return html`<h1 role="status">${mine ? ofAll(`${mine.count} transactional id${mine.count === 1 ? '' : 's'}`, mine) : looking(error)}</h1><${Missing} rows=${mine?.not_read} error=${error} /><${Find} page="history" query=${query} name="contains" label="id contains" />
    ${mine?.count > mine?.rows.length && html`<p class="note">the first ${mine.rows.length} of ${mine.count}</p>`}
    ${mine && html`<${Table} name="Transactional ids" empty=${ofAll('there are no such ids', mine)} rows=${mine.rows} columns=${[['transactional id', r => html`<a href=${link(r.transactional_id)}>${named(r.transactional_id)}</a>`, 'id'], ['state', r => r.state], ['producer', r => r.producer_id, 'number']]} />`}`
  return html`<h1 role="status">${named(id)}${mine?.now ? ` is ${mine.now.state}` : ''}</h1><${Missing} rows=${mine?.not_read} error=${error} /><p><a href="#/history">all ids</a></p>
    ${mine && html`${!mine.now && !mine.rows.length && html`<p class="note">No coordinator knows this id, and nothing is kept of it.</p>`}
    ${mine.now && html`<p>Producer ${mine.now.producer_id}:${mine.now.producer_epoch}${mine.now.state === 'Ongoing' ? html`, open for ${age(mine.now.age_ms ?? mine.now.duration_ms ?? 0)}` : ''}.</p>`}
    ${mine.verdict && !mine.causes.length && html`<p><b>${mine.verdict.verdict}</b>: ${mine.verdict.why} <span class="mute">${mine.verdict.advice}</span></p>${mine.verdict.repair && html`<${Command} text=${mine.verdict.repair} />`}`}
    ${mine.causes.length > 0 && html`<h2>Why it stands, and what to type</h2><${Cards} causes=${mine.causes} />`}
    ${mine.rows.length > 0 && html`<h2>Its life</h2><${Steps} rows=${mine.rows} />
    <${Table} name="Events" empty="nothing is kept" rows=${[...mine.rows].reverse()} columns=${[
      ['time', r => when(r.time_ms), 'time'], ['event', r => html`<b>${r.event}</b>`], ['producer', r => r.producer_id === null ? null : `${r.producer_id}:${r.producer_epoch}`], ['what', r => r.what, 'id'], ['who', r => [r.principal, r.client_id, r.address].filter(Boolean).join(', ') || null, 'id'], ['told by', r => r.source],
    ]} />`}${mine.notes.map(each => html`<p class="note">${each}</p>`)}`}`
}

export function Decisions({ query }) {
  const { data, error } = useData(`decisions?${new URLSearchParams(['topic', 'prefix'].filter(each => query.get(each)).map(each => [each, query.get(each) ?? '']))}`, 15)
  const gone = data?.rows.filter(each => each.state === 'gone') ?? [], isRefused = data?.not_read.some(each => each.what === `topic ${data.topic}`)
  return html`<h1 role="status">${data ? data.has_topic ? `${data.count} decided batches` : isRefused ? `Not known: topic ${data.topic} may not be seen` : `No decisions: there is no topic ${data.topic}` : looking(error)}</h1><${Missing} rows=${data?.not_read} error=${error} />
    <p class="mute">A Spark query with exactly-once output decides each batch once; its winners are committed afterwards. Decisions that a database holds (decisionUrl) are not seen here.</p>
    ${data?.causes.length > 0 && html`<${Cards} causes=${data.causes} />`}
    ${gone.length > 0 && html`<p class="note bad" role="alert">LOST, unless recovery knows better: ${gone.length} decided and not finished, with a winner that is not open any more. This tells, and changes nothing:</p><${Command} text=${data.command} />`}
    ${data?.notes.map(each => html`<p class="note">${each}</p>`)}
    ${data?.has_topic && html`<${Table} name="Decisions" empty="nothing was decided yet" rows=${data.rows} columns=${[
      ['query', r => html`<b>${r.query}</b>`], ['batch', r => r.batch, 'number'], ['is', r => html`<span class=${`seen ${r.state}`}>${r.state === 'gone' ? 'decided, winner gone' : r.state}</span>`], ['records', r => r.records, 'number'],
      ['winners', r => html`${r.winners.slice(0, 8).map(([name, fate]) => html`<div><a href=${link(name)}>${named(name)}</a> ${fate}</div>`)}${r.winner_count > 8 && `and ${r.winner_count - 8} more`}`, 'id'],
    ]} /><h2>Open, and can no longer win</h2><${Table} name="Orphans" empty=${ofAll('no orphans are open', data)} rows=${data.orphans} columns=${[['transactional id', r => html`<a href=${link(r[0])}>${named(r[0])}</a>`, 'id'], ['of query', r => r[1]]]} />
    <h2>Vetoes</h2><${Table} name="Vetoes" empty="no run was vetoed" rows=${data.vetoes} columns=${[['query', r => r[0]], ['batch', r => r[1]], ['run', r => r[2]]]} />`}`
}
