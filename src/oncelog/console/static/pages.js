// Overview, open transactions, what is in doubt, groups: each is what a command prints.
// @ts-check
import { Act } from './plans.js'
import { Command, Missing, Said, Since, Table, html, looking, named, ofAll, useData } from './html.js'
import { Cards } from './lanes.js'
import { KIND, age, clock } from './model.js'

const Tile = ({ count, text, alarm, href }) => html`<li class=${`tile ${alarm ?? ''}`}><strong>${count ?? '…'}</strong>${href ? html`<a href=${href}>${text}</a>` : text}</li>`
const alarm = (count, kind = 'alarm') => count > 0 ? kind : ''

export function Overview() {
  const { data, error } = useData('overview', 3), of = error?.sinceMs && data ? `At ${clock(error.sinceMs)} UTC: ` : ''
  return html`<h1 id="verdict">${of}${data?.verdict ?? looking(error)}</h1><${Said} text=${data?.verdict ?? ''} /><${Missing} rows=${data?.not_read} error=${error} /><${Since} data=${data} />
    <ul class="tiles">
      <${Tile} count=${data?.stopped} text="partitions stopped" alarm=${alarm(data?.stopped)} href="#/lanes" />
      <${Tile} count=${data?.waiting} text="waiting a moment" />
      <${Tile} count=${data?.offline} text="offline" alarm=${alarm(data?.offline)} />
      <${Tile} count=${data?.open} text="open transactions" href="#/open" />
      <${Tile} count=${data?.in_doubt} text="prepared, in doubt" alarm=${alarm(data?.in_doubt, 'care')} href="#/in-doubt" />
      <${Tile} count=${data?.hanging} text="hanging" alarm=${alarm(data?.hanging)} />
      <${Tile} count=${data?.rounds.standing} text="groups stand still" alarm=${alarm(data?.rounds.standing, 'care')} href="#/groups" />
      <${Tile} count=${data?.partition_count} text="partitions looked at" />
    </ul>
    ${data?.rounds.looked_at < data?.rounds.count && html`<p class="note" id="rounds">${data.rounds.looked_at} of ${data.rounds.count} groups were looked at so far: 50 at a time, every 10 s.</p>`}
    <h2>What to do first</h2>${data && html`<${Cards} causes=${data.causes} isPart=${data.not_read.length > 0} lanes=${data.partition_count || data.not_read.length === 0 ? undefined : []} />`}
    ${data?.rounds.shown < data?.rounds.causes && html`<p class="mute">and ${data.rounds.causes - data.rounds.shown} more that groups stand still for: <a href="#/groups">Groups</a></p>`}`
}

export function Open() {
  const { data, error } = useData('open', 3)
  return html`<h1 role="status">${data ? ofAll(`${data.count} open transaction${data.count === 1 ? '' : 's'}`, data) : looking(error)}</h1><${Missing} rows=${data?.not_read} error=${error} /><${Since} data=${data} />
    ${data && html`<${Table} stacks name="Open transactions" empty=${ofAll('nothing is open', data)} rows=${data.rows} columns=${[
      ['transactional id', r => html`<b>${r.transactional_id === null ? `producer ${r.producer_id}` : named(r.transactional_id)}</b><br /><span class="mute">producer ${r.producer_id}:${r.producer_epoch}</span>`, 'id'],
      ['is', r => r.verdict],
      ['age against timeout', r => html`<${Age} row=${r} />`],
      ['holds back', r => r.blocked ? html`<b>${r.blocked}</b> offset${r.blocked === 1 ? '' : 's'} of ${r.holds.join(', ')}` : r.blocked === null ? 'not known: nobody serves its partitions' : 'nothing', 'id'],
      ['open on', r => r.open_on.join(', '), 'id'],
      ['why, and what to type', r => html`${r.why}<br /><span class="mute">${r.advice}</span>${r.repair && html`<${Command} text=${r.repair} />`}<${Act} key=${`${r.producer_id}:${r.producer_epoch}:${r.open_on[0]}`} row=${r} />`],
    ]} />`}`
}

const Age = ({ row }) => {
  const kind = KIND[row.verdict] ?? 'progress', isHidden = row.timeout_ms === undefined && kind !== 'hanging', never = kind === 'hanging' || row.timeout_ms === null || isHidden
  const text = isHidden ? `${age(row.age_ms)}, its timeout is not known` : `${age(row.age_ms)} of ${never ? '∞' : age(row.timeout_ms)}`
  return html`<div class=${`bar ${kind}`}><progress max=${never ? 1 : row.timeout_ms} value=${never ? 1 : Math.min(row.age_ms, row.timeout_ms)} aria-label=${text}></progress></div>${text}`
}

export function InDoubt() {
  const { data, error } = useData('in-doubt', 5), isDecided = row => ['commit', 'abort'].includes(said(data, row)), isAny = data?.rows.some(isDecided)
  return html`<h1 role="status">${data ? ofAll(`${data.rows.length} in doubt`, data) : looking(error)}</h1><${Missing} rows=${data?.not_read} error=${error} /><${Missing} error=${data?.database_error} /><${Since} data=${data} />
    <p class="mute">A prepared transaction (two-phase commit) waits for whoever decides outside of Kafka. It has no timeout: nobody ends it by waiting.</p>
    ${data && html`<${Table} stacks name="Prepared transactions" empty=${ofAll('nothing is in doubt', data)} rows=${data.rows} columns=${[
      ['transactional id', r => html`<b>${named(r.transactional_id)}</b>`, 'id'], ['prepared state', r => `${r.producer_id}:${r.producer_epoch}`], ['age', r => age(r.age_ms), 'number'],
      ['open on', r => r.open_on.join(', ')], ['holds back', r => r.blocked === null ? 'not known' : r.blocked || 'nothing', 'number'],
      ['database says', r => said(data, r)],
      ['what to type', r => html`<span class="mute">${r.advice}</span>${r.repair && html`<${Command} text=${r.repair} />`}${isDecided(r) && html`<${Act} key=${`${r.producer_id}:${r.producer_epoch}`} row=${r} wanted=${[['resolve this one', { action: 'resolve', transactional_id: r.transactional_id }]]} />`}`],
    ]} />
    ${isAny && html`<p>To end all that the database has decided, as it says; put the URL that the console was started with for <code>URL</code>, which may hold a password and is not shown:</p><${Command} text=${data.resolve} />`}
    ${data.has_database && html`<${Act} row=${{}} wanted=${isAny ? [['resolve all', { action: 'resolve' }]] : []} />`}
    ${!data.has_database && html`<p>Which way it goes is known by its database only. Ask its owner, or start the console with <code>--database URL</code>, or:</p><${Command} text=${data.command} />`}`}`
}

const said = (data, row) => {
  if (!data.has_database) return 'not asked: ask the owner'
  if (data.database_error) return 'not known: it did not answer'
  return data.database.find(each => each.transactional_id === row.transactional_id)?.verdict ?? 'not-here'
}

const MEMBERS = new Set(['Stable', 'PreparingRebalance', 'CompletingRebalance', 'Assigning', 'Reconciling'])

const inAddress = name => `group=${encodeURIComponent(name)}`

/** Why a group stands still: what `oncelog why GROUP` says, its transactions too. */
const Why = ({ name, shown }) => {
  const { data, error } = useData(`why?${inAddress(name)}`, 10)
  return html`<${Missing} rows=${data?.not_read} error=${error} /><h3 role="status">${data ? data.causes.length ? 'Why it stands still' : 'Nothing holds it back' : error ? 'Not known' : 'looking …'}</h3>
    ${data?.notes.filter(note => !shown?.includes(note)).map(note => html`<p class="note">${note}</p>`)}${data?.causes.length > 0 && html`<${Cards} causes=${data.causes} />`}`
}

export function Groups({ query }) {
  const only = query.get('group'), { data, error } = useData(only ? `groups?${inAddress(only)}` : 'groups', 5)
  return html`<h1 role="status">${data ? ofAll(`${data.count} group${data.count === 1 ? '' : 's'}`, data) : looking(error)}</h1><${Missing} rows=${data?.not_read} error=${error} />
    <p class="mute">Lag: offsets that a read_committed reader can read now. Held back: those it cannot, for open transactions. Raw: to the end. Pending: an open transaction may still move the position, and members that start wait for it. Markers and aborted records have offsets, too.</p>
    ${data?.causes.length > 0 && html`<${Cards} causes=${data.causes} />`}${data?.notes.map(note => html`<p class="note">${note}</p>`)}
    ${only !== null && html`<p><a href="#/groups">all groups</a></p>${data?.groups.length === 0 && html`<${Why} name=${only} />`}`}
    ${only === null && data?.count > data?.groups.length && html`<p class="note">the first ${data.groups.length} of ${data.count} groups</p>`}
    ${data?.groups.map(each => html`<section key=${each.group}><h2>${named(each.group)} <span class="mute">${each.state}, ${each.type}</span></h2>
      ${only === null ? html`<p><a href=${`#/groups?${inAddress(each.group)}`} aria-label=${`Why ${each.group} stands still`}>why does it stand still?</a></p>${each.causes.length > 0 && html`<${Cards} causes=${each.causes} />`}` : html`<${Why} name=${each.group} />`}
      ${each.notes.map(note => html`<p class="note">${note}</p>`)}
      <${Table} name=${`Positions of ${each.group}`} empty="no positions are stored" rows=${each.rows} columns=${[
        ['partition', r => `${r.topic}-${r.partition}`], ['position', r => r.position, 'number'], ['lag', r => r.lag, 'number'],
        ['held back', r => r.blocked ? html`<b>${r.blocked}</b>` : r.blocked, 'number'], ['raw lag', r => r.raw_lag, 'number'],
        ['pending', r => r.pending ? html`<b>in a transaction</b>` : 'no'], ['client', r => r.client, 'id'],
      ]} />${!MEMBERS.has(each.state) && html`<${Act} key=${each.group} row=${each} />`}</section>`)}`
}
