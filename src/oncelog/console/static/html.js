// Preact and htm, bound to one another; small parts that all pages use.
// @ts-check
import { h } from './vendor/preact.mjs'
import { useEffect, useRef, useState } from './vendor/hooks.mjs'
import htm from './vendor/htm.mjs'
import { age, clock } from './model.js'

// What no eye sees, or what turns the letters around it: shown as an escape, as on the command line.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu, UNSEEN_IN_VALUES = /(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu
const escaped = c => { const n = c.codePointAt(0) ?? 0; return { '\t': '\\t', '\n': '\\n', '\r': '\\r' }[c] ?? (n < 256 ? `\\x${n.toString(16).padStart(2, '0')}` : n < 65536 ? `\\u${n.toString(16).padStart(4, '0')}` : `\\U${n.toString(16).padStart(8, '0')}`) }

/** A name as it can be told from every other. @param {string} text */
export const visible = text => text.replace(UNSEEN, escaped)

/** A name to click on: one of spaces only is quoted. @param {string} text */
export const named = text => text.trim() ? text : `'${text}'`

// Every text of every page goes through here; a value (`pre`) keeps its lines.
const seen = (type, each) => typeof each !== 'string' ? each : type === 'pre' ? each.replace(UNSEEN_IN_VALUES, escaped) : visible(each)
export const html = htm.bind((type, props, ...children) => h(type, props, ...children.map(each => seen(type, each))))

/** JSON of the console's own server; an error's message is the server's. @param {string} path @param {AbortSignal} [signal] */
export async function ask(path, signal) {
  const response = await fetch(`api/v1/${path}`, { signal, headers: { accept: 'application/json' } })
  const body = await response.json()
  if (!response.ok || response.status === 202) throw Object.assign(new Error(body.message ?? response.statusText), body, { status: response.status })
  return body
}

const ANSWERS_WITHIN_MS = 2000

/** A page's data, asked for again every `seconds` while somebody looks. `error.isOld`: what is shown is of `error.sinceMs`, as
 * nobody has answered since, or not within a moment. @param {string} path @param {number} seconds */
export function useData(path, seconds) {
  const [data, set] = useState(null), [error, fail] = useState(null), shown = useRef(0)
  useEffect(() => {
    let timer = 0, isGone = false, isOld = data !== null
    const late = () => { if (!isGone && isOld) fail(Object.assign(new Error('Nobody has answered for a moment'), { error: 'NoAnswer', isOld, sinceMs: shown.current })) }
    const look = async () => {
      let next = seconds
      if (!document.hidden) {
        const waiting = setTimeout(late, ANSWERS_WITHIN_MS)
        try { const found = await ask(path); if (!isGone) { set(found); fail(null); isOld = true; shown.current = Date.now() - (found.age_ms ?? 0) } } catch (e) { if (e.status === 202) next = 0.5; if (!isGone) fail(Object.assign(e, { isOld, sinceMs: shown.current })) }
        clearTimeout(waiting)
      }
      if (!isGone) timer = setTimeout(look, next * 1000)
    }
    look()
    return () => { isGone = true; clearTimeout(timer) }
  }, [path, seconds])
  return { data, error }
}

/** A command to copy. @param {{text: string}} props */
export function Command({ text }) {
  const [isCopied, set] = useState(false)
  const copy = async () => { try { await navigator.clipboard.writeText(text); set(true); setTimeout(() => set(false), 2000) } catch { set(false) } }
  return html`<div class="command"><code>${text}</code><button type="button" onClick=${copy} aria-label=${`Copy: ${text}`}>${isCopied ? 'copied' : 'copy'}</button></div>`
}

const told = e => `${/^[A-Z_]{4,}$/.test(e.error ?? '') && !e.message.startsWith(e.error) ? `${e.error}: ` : ''}${e.message}${e.hint ? ` (${e.hint})` : ''}`.replace(/\.?$/, '.')

const isCalm = e => e.error === 'BeingRead' || e.error === 'NoAnswer'
const isOfBefore = e => ` What is shown may be old${e.sinceMs ? `: it is of ${clock(e.sinceMs)} UTC` : ''}; asked again by itself.`

/** A page's heading until there is data. */
export const looking = error => error && !isCalm(error) ? 'Not known' : 'looking …'

/** What could not be asked: it hides nothing else, and says what is missing. */
export const Missing = ({ rows, error }) => html`
  ${error && html`<p class=${`note ${isCalm(error) ? '' : 'bad'}`} role=${isCalm(error) ? 'status' : 'alert'}>${told(error)}${error.isOld ? isOfBefore(error) : ''}</p>`}
  ${(rows ?? []).slice(0, 8).map(each => html`<p class="note">${each.what} could not be read: ${each.error}: ${each.why}</p>`)}
  ${(rows ?? []).length > 8 && html`<p class="note">and ${rows.length - 8} more that could not be read</p>`}`

/** What stands for nothing found: an all-clear only where all could be looked at. @param {string} none @param {any} data */
export const ofAll = (none, data) => data.not_read?.length > 0 ? `${none}, of what could be looked at` : none

/** How old it is, where that is more than a moment: of very many partitions one look is shared for a while. */
export const Since = ({ data }) => data?.age_ms > 10000 && html`<p class="mute">as it was ${age(data.age_ms)} ago: so many partitions are looked at every 30 s at most</p>`

/** A table that scrolls by itself on a narrow screen, or `stacks` its cells there: else what to type is out of sight.
 * Columns: [title, cell(row), class]. */
export const Table = ({ name, columns, rows, empty, stacks }) => rows.length === 0 ? html`<p class="mute">${empty}</p>` : html`
  <div class=${stacks ? 'scroll stacks' : 'scroll'} tabindex="0" role="region" aria-label=${name}><table>
    <thead><tr>${columns.map(([title, , kind]) => html`<th scope="col" class=${kind}>${title}</th>`)}</tr></thead>
    <tbody>${rows.map(row => html`<tr>${columns.map(([title, cell, kind]) => html`<td class=${kind} data-title=${title}>${cell(row) ?? '-'}</td>`)}</tr>`)}</tbody>
  </table></div>`

/** Says a text to who does not see the page, when it changes otherwise than by an age. @param {{text: string}} props */
export const Said = ({ text }) => html`<p class="hidden" role="status">${text.replace(/ for [\dsmhd]+/g, '').replace(/\d+ offsets?/g, 'offsets')}</p>`

/** A canvas that somebody else draws. */
export function Canvas({ draw, ...more }) {
  const ref = useRef(null)
  useEffect(() => draw(ref.current))
  return html`<canvas ref=${ref} ...${more}></canvas>`
}
