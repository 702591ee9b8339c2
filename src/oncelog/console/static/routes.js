// The address holds the view: everything behind # is a page and its parameters, so that it can be sent to somebody.
// @ts-check

/** What each page's address may say; what else stands in one was mistyped, and is named. */
export const PARAMETERS = {
  overview: [], lanes: ['topic', 'partition', 'window', 'time', 'at', 'axis'], open: [], 'in-doubt': [], groups: ['group'], history: ['id', 'contains'], decisions: ['topic', 'prefix'],
  topics: ['topic', 'contains', 'internal', 'first'], records: ['topic', 'partition', 'from', 'before', 'contains', 'key', 'where', 'hidden', 'control'], configs: ['kind', 'name', 'all'],
  access: ['contains'], quotas: [], brokers: [],
}

/** @returns {{page: string, query: URLSearchParams}} */
export function route() {
  const [path, parameters] = location.hash.replace(/^#\/?/, '').split('?')
  return { page: path || 'overview', query: new URLSearchParams(parameters ?? '') }
}

/** Go to a page, with some parameters changed. @param {string} page @param {URLSearchParams} query @param {Record<string, string>} changed */
export function go(page, query, changed) {
  const next = new URLSearchParams(query)
  for (const [name, value] of Object.entries(changed)) value ? next.set(name, value) : next.delete(name)
  const text = next.toString()
  history.replaceState(null, '', `#/${page}${text ? `?${text}` : ''}`)
  dispatchEvent(new HashChangeEvent('hashchange'))
}
