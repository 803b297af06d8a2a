// The panel in all three homes, in a real browser, against the real stack:
// `make build panel` first, then `npm test` here. Screenshots, logs and data
// are kept in out/.
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import { flows } from './flows.mjs'
import { hostFlows } from './host.mjs'
import { ExtensionHome, GatewayHome, HostHome } from './lib/homes.mjs'
import { Site, Stack, out, until } from './lib/processes.mjs'
import { trouble } from './trouble.mjs'

const limits = { timeout: 90_000 }

/** @type {Stack} */
let stack
/** Closed at the end, the last first. */
const open = []

before(async () => {
  rmSync(out, { recursive: true, force: true })
  stack = await Stack.start()
})

after(async () => {
  for (const o of open.reverse()) await o.end().catch((err) => console.error(err))
  await stack?.end()
})

async function start(Home) {
  const home = await Home.start(stack)
  open.push(home)
  return home
}

/** A flow on a site of its own; if it fails, what its panels show is kept. */
async function play(home, name, flow) {
  const site = await Site.start()
  try {
    await flow(home, site, stack)
  } catch (err) {
    await home.keep(name)
    throw err
  } finally {
    await home.closePanels()
    await site.end()
  }
}

describe('as a page of the gateway', () => {
  let home
  before(async () => (home = await start(GatewayHome)))
  const { 'a browser that is gone is waited for': _, ...rest } = trouble
  for (const [name, flow] of Object.entries({ ...flows, ...rest })) test(name, limits, () => play(home, name, flow))
})

describe('as an extension', () => {
  let home
  before(async () => (home = await start(ExtensionHome)))
  for (const [name, flow] of Object.entries(flows)) test(name, limits, () => play(home, name, flow))
  const again = 'the gateway dies in the middle and the run goes on'
  test(again, limits, () => play(home, again, trouble[again]))

  test('in the side panel', limits, async () => {
    const p = await home.open({ session: '' })
    await p.light('idle')
    // Opening it takes a person's press.
    await p.page.evaluate(async () => {
      const { id } = await chrome.windows.getCurrent()
      document.addEventListener('click', () => chrome.sidePanel.open({ windowId: id }), { once: true })
    })
    await p.page.locator('h1').first().click()
    const light = `document.querySelector('[data-testid=state-light]')?.dataset.state`
    await until('a side panel that is connected', async () => (await p.inOthers(light)).includes('idle'))
    await p.close()
  })
})

describe('in the browser that the agent works in', () => {
  let home, elsewhere, gone
  before(async () => {
    home = await start(HostHome)
    // This one takes half a minute of waiting, in another browser.
    elsewhere = await start(GatewayHome)
    const name = 'a browser that is gone is waited for'
    gone = play(elsewhere, name, trouble[name]).then(() => {}, (err) => err)
  })
  for (const [name, flow] of Object.entries(hostFlows)) test(name, limits, () => play(home, name, flow))
  test('no errors in the panel', async () => {
    assert.deepEqual((await home.open()).faults, [])
  })
  test('meanwhile, at the gateway: a browser that is gone is waited for', limits, async () => {
    const err = await gone
    if (err) throw err
  })
})
