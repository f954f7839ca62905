// Takes the pictures of lab/web/shots: shots.cjs CHROMIUM PROFILE FOLDER DOCUMENT...
const path = require('path')
const puppeteer = require('puppeteer-core')

const [executablePath, userDataDir, folder, ...documents] = process.argv.slice(2)
let failed = false

function complain(...words) {
  console.error('shots:', ...words)
  failed = true
}

async function shoot(browser, document, width, scheme) {
  const address = document.includes('://') ? document : 'file://' + path.resolve(document)
  const name = path.basename(document, '.html') || 'page'
  const where = `${name} at ${width}, ${scheme}:`
  const tab = await browser.newPage()
  tab.on('console', m => complain(where, 'console', m.type(), m.text()))
  tab.on('pageerror', e => complain(where, 'error', e.message))
  tab.on('request', r => { if (r.url() !== address) complain(where, 'asks for', r.url()) })
  await tab.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }])
  await tab.setViewport({ width, height: 800 })
  await tab.goto(address)
  const wide = await tab.evaluate(() => document.documentElement.scrollWidth)
  if (wide > width) complain(where, `the page is ${wide} wide`)
  await tab.screenshot({ path: path.join(folder, `${name}-${width}-${scheme}.png`), fullPage: true })
  await tab.close()
}

async function main() {
  const browser = await puppeteer.launch({
    executablePath, userDataDir, headless: true,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync', '--disable-lcd-text'],
  })
  for (const document of documents) {
    for (const width of [1280, 390]) {
      for (const scheme of ['light', 'dark']) await shoot(browser, document, width, scheme)
    }
  }
  await browser.close()
  process.exitCode = failed ? 1 : 0
}

main()
