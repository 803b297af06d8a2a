// The three homes of the panel, each opened as a person would.
import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import path from 'node:path'
import { chromium } from 'playwright-core'
import { Panel } from './panel.mjs'
import { Program, chromiumArgs, cleanEnv, findChromium, freePort, here, out, until } from './processes.mjs'

/** As wide as a side panel beside a page. */
export const narrow = { width: 400, height: 860 }
const wide = { width: 1180, height: 860 }

const extensionId = 'enikjdaafpajpbbbdlbkhnmhnegijpmn'

class Home {
  panels = []

  /** Remembers a panel until it is closed. */
  panel(page) {
    const panel = new Panel(page, this.name)
    this.panels.push(panel)
    return panel
  }

  /** Keeps what the panels show. */
  async keep(name) {
    for (const p of this.panels) if (!p.page.isClosed()) await p.shot(`FAILED ${name}`).catch(() => {})
  }

  async closePanels() {
    for (const p of this.panels.splice(0)) await p.page.close().catch(() => {})
  }
}

/** A page of the gateway. */
export class GatewayHome extends Home {
  name = 'gateway'

  static async start(stack) {
    const h = new GatewayHome()
    h.stack = stack
    h.browser = await chromium.launch({ executablePath: findChromium(), args: chromiumArgs })
    return h
  }

  /** Opens a panel, by default with the operator's token in a session of its own. */
  async open({ locale = 'en-US', viewport = wide, colorScheme = 'light', token = this.stack.token, url = this.stack.url, session = freshSession() } = {}) {
    const context = await this.browser.newContext({ locale, viewport, colorScheme })
    const panel = this.panel(await context.newPage())
    await panel.page.goto(`${url}/${token ? `#token=${token}` : ''}`)
    if (session) await panel.enter(session)
    return panel
  }

  end() {
    return this.browser.close()
  }
}

/** The extension, in a tab as wide as a side panel. */
export class ExtensionHome extends Home {
  name = 'extension'

  static async start(stack) {
    const h = new ExtensionHome()
    h.stack = stack
    execFileSync(process.execPath, [here('../../extension/build.mjs')], { stdio: ['ignore', 'ignore', 'inherit'] })
    const files = here('../../extension/dist')
    h.context = await chromium.launchPersistentContext('', {
      executablePath: findChromium(), viewport: narrow, locale: 'en-US', ignoreDefaultArgs: ['--disable-extensions'],
      args: [...chromiumArgs, '--headless=new', '--lang=en-US', `--disable-extensions-except=${files}`, `--load-extension=${files}`],
    })
    h.url = `chrome-extension://${extensionId}/index.html`
    return h
  }

  /** Opens a panel; the first one is told where the gateway is, and remembers it. */
  async open({ session = freshSession() } = {}) {
    const panel = this.panel(await this.context.newPage())
    await panel.page.goto(this.url)
    if (!this.told) {
      await panel.page.getByTestId('nav-settings').click()
      await panel.page.getByLabel('Address of the gateway').fill(this.stack.url)
      await panel.get('settings-token').fill(this.stack.token)
      await panel.page.getByLabel('Remember the token on this device').check()
      await panel.button('Save and connect').click()
      await panel.light('idle')
      await panel.page.getByTestId('nav-agent').click()
      this.told = true
    }
    if (session) await panel.enter(session)
    return panel
  }

  end() {
    return this.context.close()
  }
}

/** A window of the browser that the agent works in, without a gateway. */
export class HostHome extends Home {
  name = 'host'

  static async start(stack) {
    const h = new HostHome()
    h.stack = stack
    const port = await freePort()
    const data = path.join(out, 'host')
    rmSync(data, { recursive: true, force: true })
    h.program = new Program('browserhost', stack.bin('browserhost'), [
      'run', '--headless', '--profile', path.join(data, 'profile'), '--browser-id', 'panel-host', '--rules', stack.env.SGCLAW_RULES_PATH,
      '--panel', '--chrome-arg', `--remote-debugging-port=${port}`, '--chrome-arg', '--lang=en-US',
    ], { ...cleanEnv(), ...stack.env, SGCLAW_BROWSER_ID: 'panel-host', SGCLAW_PIPEHOST_DATA_DIR: data, SGCLAW_LOCALE: 'en', LANGUAGE: 'en' })
    ;[, h.url] = await h.program.says(/the panel is open: (http:\S+)/)
    h.browser = await chromium.connectOverCDP(`http://127.0.0.1:${port}`)
    return h
  }

  /** There is one panel. */
  async open() {
    const page = await until('the panel in the browser', () => this.browser.contexts()[0].pages().find((p) => p.url().startsWith(this.url)))
    await page.setViewportSize(narrow)
    this.only ??= new Panel(page, this.name)
    return this.only
  }

  async keep(name) {
    await this.only?.shot(`FAILED ${name}`).catch(() => {})
  }

  async closePanels() {}

  /** The page that the agent works on. */
  work() {
    return this.browser.contexts()[0].pages().find((p) => !p.url().startsWith(this.url))
  }

  async end() {
    await this.browser.close()
    await this.program.end()
  }
}

let sessions = 0

export function freshSession() {
  return `agent:main:e2e:${process.pid}-${++sessions}`
}
