// Topics, configurations, access rules, quotas, brokers: what `oncelog topics | configs | acls | quotas` show.
// @ts-check
import { Command, Missing, Table, html, looking, ofAll, useData } from './html.js'
import { go } from './routes.js'

const PAGE = 200
const link = (page, asked) => `#/${page}?${new URLSearchParams(asked)}`
const size = bytes => bytes < 0 ? 'not told' : bytes > 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : bytes > 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${bytes} B`

/** A field that narrows a list: the address keeps it. */
const Find = ({ page, query, name, label }) => html`<form class="tools" onSubmit=${event => { event.preventDefault(); go(page, query, { [name]: event.target.elements[name].value, first: '' }) }}>
  <label>${label} <input name=${name} key=${query.get(name)} defaultValue=${query.get(name) ?? ''} /></label><button type="submit">show</button></form>`
const Turn = ({ page, query, data }) => data && data.count > PAGE && html`<div class="tools"><button type="button" disabled=${data.first === 0} onClick=${() => go(page, query, { first: String(Math.max(0, data.first - PAGE) || '') })}>before</button>
  <button type="button" disabled=${data.first + PAGE >= data.count} onClick=${() => go(page, query, { first: String(data.first + PAGE) })}>after</button>
  <span class="mute">${data.first + 1} to ${Math.min(data.count, data.first + PAGE)} of ${data.count}</span></div>`
const asked = (query, ...names) => new URLSearchParams(names.filter(each => query.get(each)).map(each => [each, query.get(each)])).toString()

export function Topics({ query }) {
  const topic = query.get('topic'), { data, error } = useData(`topics?${asked(query, 'topic', 'contains', 'internal', 'first')}`, topic ? 5 : 15)
  if (topic) return html`<h1 role="status">${topic}</h1><${Missing} rows=${data?.not_read} error=${error} />
    <p><a href=${link('lanes', { topic })}>lanes</a>, <a href=${link('configs', { kind: 'topic', name: topic })}>configuration</a>, <a href="#/topics">all topics</a></p>
    ${data?.topic === topic && html`<${Turn} page="topics" query=${query} data=${data} /><${Table} name=${`Partitions of ${topic}`} empty="no partitions" rows=${data.rows} columns=${[
      ['partition', r => html`<a href=${link('records', { topic, partition: String(r.partition) })} aria-label=${`Records of partition ${r.partition}`}>${r.partition}</a>`, 'number'], ['state', r => r.state, 'held-cell'], ['leader', r => r.leader, 'number'], ['in sync', r => `${r.in_sync.length} of ${r.replicas.length}`],
      ['log start', r => r.log_start, 'number'], ['last stable offset', r => r.last_stable_offset, 'number'], ['high watermark', r => r.high_watermark, 'number'], ['held back', r => r.blocked ? html`<b>${r.blocked}</b>` : r.blocked, 'number'],
    ]} />`}`
  return html`<h1 role="status">${data ? ofAll(`${data.count} topic${data.count === 1 ? '' : 's'}, ${data.partitions} partition${data.partitions === 1 ? '' : 's'}`, data) : looking(error)}</h1><${Missing} rows=${data?.not_read} error=${error} />
    <${Find} page="topics" query=${query} name="contains" label="name contains" />
    <div class="tools"><button type="button" aria-pressed=${query.get('internal') === '1'} onClick=${() => go('topics', query, { internal: query.get('internal') === '1' ? '' : '1', first: '' })}>internal ones, too</button></div>
    <${Turn} page="topics" query=${query} data=${data} />
    ${data?.rows && !data.topic && html`<${Table} name="Topics" empty=${ofAll('there are no such topics', data)} rows=${data.rows} columns=${[
      ['topic', r => html`<a href=${link('topics', { topic: r.topic })}>${r.topic}</a>`], ['partitions', r => r.partitions, 'number'], ['replication', r => r.replication, 'number'], ['offline', r => r.offline.length ? html`<b>${r.offline.join(', ')}</b>` : 'none'], ['id', r => r.topic_id],
    ]} />`}`
}

export function Configs({ query }) {
  const { data, error } = useData(`configs?${asked(query, 'kind', 'name', 'all')}`, 15), kind = query.get('kind') || 'broker'
  const submit = event => { event.preventDefault(); const at = event.target.elements; go('configs', query, { kind: at.kind.value, name: at.name.value }) }
  return html`<h1 role="status">${data ? `Configuration of ${data.kind === 'broker' && !data.name ? 'every broker' : `${data.kind} ${data.name}`}` : 'Configuration'}</h1><${Missing} error=${error} />
    <form class="tools" onSubmit=${submit}><label>of <select name="kind" key=${kind}>${['broker', 'topic', 'group', 'client-metrics'].map(each => html`<option selected=${each === kind}>${each}</option>`)}</select></label>
      <label>name <input name="name" key=${query.get('name')} defaultValue=${query.get('name') ?? ''} /></label><button type="submit">show</button>
      <button type="button" aria-pressed=${query.get('all') === '1'} onClick=${() => go('configs', query, { all: query.get('all') === '1' ? '' : '1' })}>defaults, too</button></form>
    <p class="mute">A broker without a name: what was set for every broker. Secret values are never asked for.</p>
    ${data && html`<${Table} name="Configuration" empty="everything is at its default" rows=${data.rows} columns=${[
      ['key', r => html`<b>${r.key}</b>`], ['value', r => r.sensitive ? 'secret' : r.value], ['source', r => r.source], ['may change', r => r.read_only ? 'at a restart' : 'while it runs'],
    ]} /><p class="mute">To change one:</p><${Command} text=${data.command} />`}`
}

export function Access({ query }) {
  const { data, error } = useData(`access?${asked(query, 'contains')}`, 15)
  return html`<h1 role="status">${data ? `${data.count} access rule${data.count === 1 ? '' : 's'}` : 'Access rules'}</h1><${Missing} error=${error} /><${Find} page="access" query=${query} name="contains" label="contains" />
    ${data && html`<${Table} name="Access rules" empty="there are no such rules" rows=${data.rows} columns=${[
      ['principal', r => html`<b>${r.principal}</b>`], ['may', r => `${r.permission} ${r.operation}`], ['on', r => `${r.resource_type} ${r.resource_name}`], ['names', r => r.pattern_type], ['from', r => r.host],
    ]} />`}`
}

export function Quotas() {
  const { data, error } = useData('quotas', 15)
  return html`<h1 role="status">${data ? `${data.count} quota${data.count === 1 ? '' : 's'}` : 'Quotas'}</h1><${Missing} error=${error} />
    ${data && html`<${Table} name="Quotas" empty="there are no quotas" rows=${data.rows} columns=${[
      ['whose', r => Object.entries(r.entity).map(([kind, name]) => `${kind} ${name ?? '(every one without its own)'}`).join(', ')], ['quota', r => r.quota], ['value', r => r.value, 'number'],
    ]} />`}`
}

export function Brokers() {
  const { data, error } = useData('brokers', 10)
  return html`<h1 role="status">${data ? `${data.rows.length} broker${data.rows.length === 1 ? '' : 's'} of cluster ${data.cluster}` : 'Brokers'}</h1><${Missing} rows=${data?.not_read} error=${error} />
    ${data && html`<${Table} name="Brokers" empty="none" rows=${data.rows} columns=${[
      ['id', r => html`<a href=${link('configs', { kind: 'broker', name: String(r.id) })} aria-label=${`Configuration of broker ${r.id}`}>${r.id}</a>`, 'number'], ['address', r => `${r.host}:${r.port}`], ['is', r => r.id === data.controller ? 'controller' : 'broker'],
    ]} /><h2>Log directories</h2><${Table} name="Log directories" empty="not told" rows=${data.directories} columns=${[
      ['broker', r => r.broker, 'number'], ['directory', r => r.path], ['partitions', r => r.partitions, 'number'], ['their size', r => size(r.size), 'number'], ['free', r => size(r.usable), 'number'],
    ]} /><h2>Features</h2><${Table} name="Features" empty="not told" rows=${data.features} columns=${[
      ['feature', r => r.feature], ['level', r => r.finalized ?? 'none', 'number'], ['supported', r => r.supported.join(' to ')],
    ]} />`}`
}
