// The night of docs/tutorials/frozen-consumers.md in Firefox, over WebDriver BiDi: `node firefox.mjs PUPPETEER FIREFOX LINK` prints what it saw.
import { pathToFileURL } from 'node:url'
const [puppeteerPath, executablePath, link] = process.argv.slice(2)
const { default: puppeteer } = await import(pathToFileURL(puppeteerPath).href)
const PAGES = ['overview', 'lanes', 'open', 'in-doubt', 'groups', 'history?id=ledger-7', 'decisions', 'topics', 'records?topic=orders', 'configs', 'quotas', 'brokers']

const browser = await puppeteer.launch({ browser: 'firefox', executablePath, headless: true })
try {
  const page = await browser.newPage(), errors = []
  await page.setViewport({ width: 1440, height: 900 })
  page.on('pageerror', error => errors.push(String(error)))
  page.on('console', message => { if (message.type() === 'error') errors.push(message.text()) })
  await page.goto(link)
  await page.waitForSelector('#lanes[data-spans]', { timeout: 60000 })
  const url = page.url()
  await page.focus('#lanes')
  await page.keyboard.press('b')
  const told = () => page.$eval('#detail', each => each.textContent)
  for (let i = 0; i < 10 && !(await told()).includes('ledger-7'); i++) await page.keyboard.press('b')
  await page.waitForFunction(() => document.querySelector('#detail').textContent.includes('two-phase'), { timeout: 30000 })
  const detail = await told(), kinds = await page.evaluate(() => window.__lanes.map(each => `${each.name} ${each.kind}`))
  await page.focus('#as-table')
  await page.keyboard.press('Enter')
  await page.waitForSelector('td')
  const names = await page.$$eval('td', cells => cells.map(each => each.textContent)), images = (await page.$$('td img')).length
  const titles = {}
  for (const each of PAGES) {
    await page.goto(`${link.split('#')[0]}#/${each}`)
    await page.reload()
    await page.waitForFunction(() => document.querySelector('h1')?.textContent && !['looking …', 'ledger-7'].includes(document.querySelector('h1').textContent), { timeout: 30000 })
    titles[each] = await page.$eval('h1', found => found.textContent)
  }
  console.log(JSON.stringify({ url, detail, kinds, names, images, titles, errors }))
} finally {
  await browser.close()
}
