// The page: a session from the link's token, then what the address says.
// @ts-check
import { render } from './vendor/preact.mjs'
import { useEffect, useState } from './vendor/hooks.mjs'
import { ask, html, named } from './html.js'
import { Lanes } from './lanes.js'
import { Groups, InDoubt, Open, Overview } from './pages.js'
import { MORE } from './more.js'
import { PARAMETERS, route } from './routes.js'

const PAGES = [['overview', 'Overview', Overview], ['lanes', 'Lanes', Lanes], ['open', 'Open transactions', Open], ['in-doubt', 'In doubt', InDoubt], ['groups', 'Groups', Groups], ...MORE]

/** The token leaves the address before anything else happens: it must not stay in a history. */
async function enter() {
  const token = /[#&]token=([\w-]+)/.exec(location.hash)?.[1]
  if (token) {
    history.replaceState(null, '', `${location.pathname}#/lanes`)
    const response = await fetch('api/v1/session', { method: 'POST', headers: { 'content-type': 'application/json', 'x-oncelog-console': '1' }, body: JSON.stringify({ token }) })
    if (!response.ok) try { await ask('hello') } catch { throw new Error((await response.json()).message) }
  }
  return ask('hello')
}

async function sent(path, body) {
  const response = await fetch(`api/v1/${path}`, { method: 'POST', headers: { 'content-type': 'application/json', 'x-oncelog-console': '1' }, body: JSON.stringify(body) })
  if (!response.ok) throw new Error((await response.json()).message)
}

/** With `--login`: a name and a password that the brokers know. */
function Door() {
  const [told, tell] = useState(''), [isAsking, wait] = useState(false)
  const submit = async event => {
    event.preventDefault()
    const form = event.target, given = new FormData(form)
    wait(true); tell('')
    try { await sent('login', { user: given.get('user'), password: given.get('password') }); location.reload() } catch (e) { form.elements.password.value = ''; wait(false); tell(e.message) }
  }
  return html`<main><h1>Log in</h1><p class="mute">As who you are at the brokers: every page shows what you may see there.</p>
    <form class="tools" aria-label="Log in" onSubmit=${submit}><label>name <input name="user" autocomplete="username" required /></label> <label>password <input name="password" type="password" autocomplete="current-password" required /></label> <button type="submit" disabled=${isAsking}>log in</button></form>
    <p role="alert" class=${told ? 'note bad' : ''}>${told}</p></main>`
}

/** An address that leads nowhere: another page in its place would look like an answer. */
const Nowhere = ({ page }) => html`<h1>There is no page ${named(page)}</h1><p class="note bad" role="alert">The address was mistyped: the pages that there are stand above.</p>`

/** Parts of the address that the page does not know, and so does not heed. */
const Unknown = ({ page, query }) => {
  const known = PARAMETERS[page] ?? [], odd = [...new Set(query.keys())].filter(each => !known.includes(each))
  return odd.length > 0 && html`<p class="note bad" role="alert" id="unknown">Not heeded, as this page knows no such part of an address: ${odd.map(named).join(', ')}. It knows ${known.length ? known.join(', ') : 'none'}.</p>`
}

function Page({ hello }) {
  const [at, set] = useState(route())
  useEffect(() => { const turn = () => set(route()); addEventListener('hashchange', turn); return () => removeEventListener('hashchange', turn) }, [])
  const [name, title, Shown] = PAGES.find(([each]) => each === at.page) ?? ['', 'No such page', Nowhere]
  useEffect(() => { document.title = `${title}: oncelog console` }, [title])
  return html`<header><b>oncelog</b>
    <nav aria-label="Pages">${PAGES.map(([each, text]) => html`<a href=${`#/${each}`} aria-current=${each === name ? 'page' : undefined}>${text}</a>`)}</nav>
    <span class="mute right">${hello.brokers}${hello.cluster ? `, cluster ${hello.cluster}` : ''}; ${hello.user ? `${hello.user}: ` : ''}${hello.is_read_only ? 'read-only' : 'may end transactions'} ${hello.has_login && html`<button type="button" onClick=${() => sent('logout', {}).finally(() => location.reload())}>log out</button>`}</span></header>
    <main>${name && html`<${Unknown} page=${name} query=${at.query} />`}<${Shown} query=${at.query} page=${at.page} key=${name} /></main>`
}

const root = document.getElementById('root')
try {
  render(html`<${Page} hello=${await enter()} />`, root)
} catch (error) {
  render(error.error === 'LoginNeeded' ? html`<${Door} />` : html`<main><h1>Who are you?</h1><p class="note bad" role="alert">${error.message}</p></main>`, root)
}
