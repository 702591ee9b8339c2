// A time as somebody types it, and as the address keeps it. UTC. No DOM.
// @ts-check

const DAY = 86400000

/** What was typed as ms since 1970: 03:12, 03:12:30 (the last time that it was so), 2026-01-31 03:12, an ISO time, -15m; null: now; NaN: none of these.
 * @param {string} text @param {number} nowMs */
export function momentOf(text, nowMs) {
  const typed = text.trim()
  if (!typed || typed === 'now') return null
  const ago = /^-(\d+)([smhd])$/.exec(typed)
  if (ago) return nowMs - Number(ago[1]) * { s: 1000, m: 60000, h: 3600000, d: DAY }[ago[2]]
  const time = /^(\d{1,2}):(\d\d)(?::(\d\d))?$/.exec(typed)
  if (time) {
    const [hours, minutes, seconds] = time.slice(1).map(each => Number(each ?? 0)), today = Math.floor(nowMs / DAY) * DAY
    if (hours > 23 || minutes > 59 || seconds > 59) return NaN
    const ms = today + ((hours * 60 + minutes) * 60 + seconds) * 1000
    return ms > nowMs ? ms - DAY : ms
  }
  if (!/^\d{4}-\d\d-\d\d/.test(typed)) return NaN
  const iso = typed.replace(' ', 'T')
  return Date.parse(/T.*(Z|[+-]\d\d:?\d\d)$/.test(iso) || !iso.includes('T') ? iso : `${iso}Z`)
}

/** @param {number} ms */
export const addressOf = ms => new Date(ms).toISOString().replace('.000Z', 'Z')

/** For a person: 2026-01-31 03:12:00. @param {number} ms */
export const readable = ms => new Date(ms).toISOString().slice(0, 19).replace('T', ' ')
