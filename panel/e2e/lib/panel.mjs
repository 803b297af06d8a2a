// The panel as a person meets it: what it shows is found by role and name.
import { createRequire } from 'node:module'
import { mkdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { out } from './processes.mjs'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** How long something may take that a run does: a step is a second or two. */
export const stepMs = 30_000

let shots = 0

export class Panel {
  /** @param {import('playwright-core').Page} page */
  constructor(page, home) {
    this.page = page
    this.home = home
    this.faults = []
    page.on('pageerror', (err) => this.faults.push(String(err)))
    page.on('console', (m) => {
      // A connection that is refused or lost is told here by the browser.
      if (m.type() === 'error' && !/WebSocket|ERR_|Failed to load resource/.test(m.text())) this.faults.push(m.text())
    })
    page.setDefaultTimeout(stepMs)
  }

  get(id) {
    return this.page.getByTestId(id)
  }

  /** Waits until the state light says so, e.g. "idle" or "lost". */
  async light(state, ms = stepMs) {
    await this.page.locator(`[data-testid=state-light][data-state=${state}]`).waitFor({ timeout: ms })
  }

  /** Shows a session. */
  async enter(session) {
    this.session = session
    await this.get('session-select').waitFor()
    await this.page.evaluate((key) => { location.hash = `#/?session=${encodeURIComponent(key)}` }, session)
    await this.page.waitForFunction((key) => document.querySelector('[data-testid=session-select]')?.value === key, session)
  }

  async go(view) {
    await this.get(`nav-${view}`).click()
  }

  /** Gives a task. */
  async task(text, mode) {
    await this.get('task-input').fill(text)
    if (mode) await this.get(`mode-${mode}`).check()
    await this.get('task-send').click()
  }

  /** Waits for a question about something and returns its card. */
  async asked(about) {
    const card = this.get('confirm-card').filter({ hasText: about })
    await card.waitFor({ timeout: 2 * stepMs })
    return card
  }

  async allow(about) {
    await (await this.asked(about)).getByTestId('confirm-allow').click()
  }

  async refuse(about, note = '') {
    const card = await this.asked(about)
    if (note) await card.getByTestId('confirm-note').fill(note)
    await card.getByTestId('confirm-refuse').click()
  }

  /** Waits for a result, e.g. "done", and returns it. */
  async result(state, task = '') {
    const result = this.get('result').filter({ has: this.get(`state-${state}`) }).filter({ hasText: task })
    await result.waitFor({ timeout: 2 * stepMs })
    return result
  }

  button(name) {
    return this.page.getByRole('button', { name, exact: typeof name === 'string' })
  }

  text(text) {
    return this.page.getByText(text)
  }

  async sees(text, ms = stepMs) {
    await this.page.getByText(text).first().waitFor({ timeout: ms })
  }

  async shot(name) {
    const folder = path.join(out, this.home)
    mkdirSync(folder, { recursive: true })
    await this.page.screenshot({ path: path.join(folder, `${String(++shots).padStart(2, '0')}-${name.replace(/\W+/g, '-')}.png`), animations: 'disabled' })
  }

  /** Fails on any violation that axe finds in what is shown. */
  async accessible(what) {
    const violations = await this.page.evaluate(`${axe};
      // Half-way through an animation colours are not what they will be.
      Promise.all(document.getAnimations().map((a) => a.finished.catch(() => {}))).then(() =>
        axe.run(document, { resultTypes: ['violations'] })).then((r) => r.violations.map((v) =>
          v.id + ': ' + v.help + '\\n' + v.nodes.slice(0, 5).map((n) => '    ' + n.html.slice(0, 200) + '\\n      ' + n.any.concat(n.all, n.none).map((c) => c.message).join('; ')).join('\\n')))`)
    if (violations.length > 0) throw new Error(`${what}: ${violations.length} accessibility violations\n${violations.join('\n')}`)
  }

  /** Nothing sticks out at the side. */
  async fits(what) {
    const over = await this.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
    if (over > 0) throw new Error(`${what}: ${over} px wider than the window`)
  }

  /**
   * Evaluates an expression in the other pages at this one's address, those in
   * side panels too, which no tab shows.
   */
  async inOthers(expression) {
    const cdp = await this.page.context().newCDPSession(this.page)
    try {
      const { targetInfo: own } = await cdp.send('Target.getTargetInfo')
      const { targetInfos } = await cdp.send('Target.getTargets')
      const values = []
      for (const t of targetInfos.filter((t) => t.targetId !== own.targetId && t.url.startsWith(this.page.url().split('#')[0]))) {
        const { sessionId } = await cdp.send('Target.attachToTarget', { targetId: t.targetId, flatten: false })
        const answer = new Promise((resolve) => cdp.on('Target.receivedMessageFromTarget', (m) => m.sessionId === sessionId && resolve(JSON.parse(m.message))))
        await cdp.send('Target.sendMessageToTarget', { sessionId, message: JSON.stringify({ id: 1, method: 'Runtime.evaluate', params: { expression, returnByValue: true } }) })
        values.push((await answer).result?.result?.value)
      }
      return values
    } finally {
      await cdp.detach()
    }
  }

  /** Closes the panel; nothing may have gone wrong in it unseen. */
  async close() {
    await this.page.close()
    if (this.faults.length > 0) throw new Error(`errors in the panel:\n${this.faults.join('\n')}`)
  }
}
