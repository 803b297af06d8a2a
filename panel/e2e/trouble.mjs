// What happens to a person besides: several at once, lost connections, things
// that are missing, and other ways to use the panel.
import assert from 'node:assert/strict'
import { Line, Program, freePort, until } from './lib/processes.mjs'
import { freshSession, narrow } from './lib/homes.mjs'
import { stepMs } from './lib/panel.mjs'

const zhang = '张三'
const wang = '王五'
const approve = (site, ...names) => `打开 ${site.url}/ ，批准${names.join('、')}的请假单`

export const trouble = {
  async 'two panels show the same, and an answer in one closes the card in the other'(home, site) {
    const session = freshSession()
    const [a, b] = [await home.open({ session }), await home.open({ session, viewport: narrow })]
    await a.task(approve(site, zhang, wang))
    await b.asked(zhang)
    await a.allow(zhang)
    await b.allow(wang)
    await Promise.all([a, b].map((p) => p.result('done')))
    for (const p of [a, b]) await p.get('confirm-card').waitFor({ state: 'detached' })
    assert.equal(await a.get('timeline').getByTestId('step').count(), await b.get('timeline').getByTestId('step').count())
    assert.deepEqual(await site.done(), ['approve LR-2001', 'approve LR-2003'])
    await b.shot('second-panel')
    await a.close()
    await b.close()
  },

  async 'a question in another session is told of'(home, site) {
    const p = await home.open()
    await p.task(approve(site, zhang))
    await p.asked(zhang)
    const asking = p.session
    await p.enter(freshSession())
    await p.get('asked-elsewhere').getByRole('link').filter({ hasText: 'Go there' }).first().waitFor()
    await p.accessible('asked elsewhere')
    await p.get('asked-elsewhere').getByRole('listitem').filter({ hasText: site.url }).getByRole('link').click()
    assert.equal(await p.get('session-select').inputValue(), asking)
    await p.allow(zhang)
    await p.result('done')
    await p.close()
  },

  async 'the gateway dies in the middle and the run goes on'(home, site, stack) {
    const p = await home.open()
    await p.task(approve(site, zhang, wang))
    await p.asked(zhang)
    const before = await p.get('current-task').innerText()
    stack.signal('gateway', 'SIGKILL')
    await p.get('state-reconnecting').waitFor()
    await p.accessible('reconnecting')
    await p.shot('reconnecting')
    await until('the gateway is back', () => stack.healthy())
    await p.page.getByRole('button', { name: 'Try now' }).click({ timeout: 5000 }).catch(() => {})
    await p.get('state-reconnecting').waitFor({ state: 'detached' })
    assert.equal(await p.get('current-task').innerText(), before)
    await p.allow(zhang)
    await p.allow(wang)
    await p.result('done')
    assert.deepEqual(await site.done(), ['approve LR-2001', 'approve LR-2003'])
    await p.close()
  },

  async 'the connection is dropped, and what happened meanwhile is there afterwards'(home, site, stack) {
    const line = await Line.open(stack.url)
    const p = await home.open({ url: line.url })
    await p.task(approve(site, zhang))
    await p.asked(zhang)
    line.cut()
    await p.get('state-reconnecting').waitFor()
    stack.starter('confirm', stack.openRun(site.url))
    await until('it is done', async () => (await site.done()).length > 0)
    line.mend()
    await p.result('done')
    await p.get('confirm-card').waitFor({ state: 'detached' })
    await p.get('state-reconnecting').waitFor({ state: 'detached' })
    // Nothing is there twice.
    const steps = await p.get('timeline').getByTestId('step').allInnerTexts()
    assert.equal(new Set(steps.map((s) => s.match(/Step \d+/)[0])).size, steps.length)
    await p.close()
    await line.end()
  },

  async 'a wrong token is refused and the right one taken'(home) {
    const p = await home.open({ token: 'wrong', session: '' })
    await p.get('state-bad-token').waitFor()
    await p.accessible('wrong token')
    await p.shot('wrong-token')
    await p.get('token-input').fill(home.stack.token)
    await p.get('token-go').click()
    await p.light('idle')
    const q = await home.open({ token: '', session: '' })
    await q.get('state-token').waitFor()
    await q.accessible('no token')
    await q.shot('no-token')
    await q.get('token-input').fill(home.stack.token)
    await q.page.keyboard.press('Enter')
    await q.light('idle')
    assert.ok(!q.page.url().includes(home.stack.token))
    await p.close()
    await q.close()
  },

  async 'who may only look sees that'(home, site, stack) {
    const token = JSON.parse(stack.starter('token', 'create', 'Besucher', '--role', 'viewer', '--json')).secret
    const p = await home.open({ token })
    assert.equal(await p.get('task-send').getAttribute('aria-disabled'), 'true')
    await p.get('task-input').fill('x')
    assert.match(await p.get('task-send').getAttribute('title'), /Needs the role “user”; you are “viewer”/)
    await p.accessible('viewer')
    await p.close()
  },

  async 'a missing model, worker and browser are told of'(home, site, stack) {
    // A gateway of its own, in a namespace that nobody works in.
    const port = await freePort()
    const namespace = `empty-${process.pid}`
    await stack.namespace(namespace)
    const env = { ...stack.env, SGCLAW_GATEWAY_LISTEN: `127.0.0.1:${port}`, SGCLAW_TEMPORAL_NAMESPACE: namespace }
    for (const name of Object.keys(env)) if (name.startsWith('SGCLAW_LLM_')) delete env[name]
    const gateway = new Program('gateway-alone', stack.bin('gateway'), [], env)
    try {
      await until('the gateway serves', async () => (await fetch(`http://127.0.0.1:${port}/healthz`).catch(() => ({}))).ok)
      const p = await home.open({ url: `http://127.0.0.1:${port}` })
      for (const state of ['state-model-missing', 'state-agent-offline', 'state-browser-gone']) {
        await p.get(state).waitFor()
      }
      await p.accessible('nothing there')
      await p.shot('nothing-there')
      await p.go('settings')
      await p.page.getByText('key is missing').waitFor()
      await p.close()
    } finally {
      await gateway.end()
    }
  },

  async 'a worker that hangs is waited for'(home, site, stack) {
    const p = await home.open()
    await p.task(approve(site, zhang))
    await p.asked(zhang)
    stack.signal('worker', 'SIGSTOP')
    try {
      await (await p.asked(zhang)).getByTestId('confirm-allow').click()
      await p.page.getByText('Sending your answer…').waitFor()
      assert.deepEqual(await site.done(), [])
    } finally {
      stack.signal('worker', 'SIGCONT')
    }
    await p.result('done')
    assert.deepEqual(await site.done(), ['approve LR-2001'])
    await p.close()
  },

  async 'a worker that dies changes nothing'(home, site, stack) {
    const p = await home.open()
    await p.task(approve(site, zhang))
    await p.asked(zhang)
    stack.signal('worker', 'SIGKILL')
    await p.allow(zhang)
    await p.result('done')
    assert.deepEqual(await site.done(), ['approve LR-2001'])
    await p.close()
  },

  async 'every view is accessible, in both themes, languages and at 360 px'(home) {
    for (const opts of [{}, { locale: 'zh-CN', colorScheme: 'dark', viewport: { width: 360, height: 760 } }]) {
      const p = await home.open(opts)
      for (const view of ['agent', 'sessions', 'history', 'browsers', 'usage', 'settings']) {
        await p.go(view)
        await p.page.getByRole('heading', { level: 1 }).waitFor()
        await p.page.waitForFunction(() => !document.querySelector('[aria-busy=true]'))
        const name = `${view} ${opts.locale ?? ''} ${opts.colorScheme ?? ''}`.trim()
        await p.accessible(name)
        await p.fits(name)
        await p.shot(name)
      }
      await p.close()
    }
  },

  async 'usage is plotted'(home) {
    const p = await home.open()
    await p.go('usage')
    await p.page.getByRole('img', { name: 'Runs per day' }).locator('svg, canvas').waitFor()
    await p.page.getByText('Figures as a table').first().click()
    const rows = p.page.getByRole('row')
    await until('figures', async () => (await rows.count()) > 1)
    assert.match((await rows.allInnerTexts()).join('\n'), /scripted|20\d\d-\d\d-\d\d/)
    await p.shot('usage-table')
    await p.close()
  },

  async 'language and colours are chosen and kept'(home) {
    const p = await home.open()
    await p.go('settings')
    await p.page.getByLabel('Colours').selectOption('dark')
    await p.page.getByLabel('Language').selectOption('zh')
    await p.page.getByRole('heading', { name: '设置' }).waitFor()
    await p.page.reload()
    await p.page.getByRole('heading', { name: '设置' }).waitFor()
    assert.equal(await p.page.evaluate(() => document.documentElement.dataset.theme), 'dark')
    assert.equal(await p.page.evaluate(() => document.documentElement.lang), 'zh-CN')
    await p.close()
  },

  async 'all of it with the keyboard alone'(home, site) {
    const p = await home.open()
    const { keyboard } = p.page
    /** Goes to an element with Tab. */
    const tabTo = async (id) => {
      for (let i = 0; i < 80; i++) {
        if (await p.get(id).first().evaluate((el) => el === document.activeElement)) return
        await keyboard.press('Tab')
      }
      throw new Error(`${id} cannot be reached with Tab`)
    }
    await tabTo('task-input')
    await keyboard.type(approve(site, zhang, wang))
    await keyboard.press('Control+Enter')
    await p.asked(zhang)
    await until('it takes an answer', async () => (await p.get('confirm-allow').getAttribute('aria-disabled')) !== 'true')
    await p.page.locator('body').focus()
    await tabTo('confirm-note')
    await keyboard.type('nein')
    await tabTo('confirm-refuse')
    await keyboard.press('Enter')
    await p.asked(wang)
    await until('it takes an answer', async () => (await p.get('confirm-allow').getAttribute('aria-disabled')) !== 'true')
    await tabTo('stop-task')
    await keyboard.press('Enter')
    await p.get('stop-dialog').waitFor()
    await keyboard.press('Escape')
    await p.get('stop-dialog').waitFor({ state: 'detached' })
    assert.ok(await p.get('stop-task').evaluate((el) => el === document.activeElement), 'the dialog gives the focus back')
    await keyboard.press('Enter')
    await tabTo('dialog-go')
    await keyboard.press('Enter')
    await p.result('aborted')
    await tabTo('nav-history')
    await keyboard.press('Enter')
    await p.get('run-row').first().waitFor()
    assert.deepEqual(await site.done(), [])
    await p.close()
  },

  async 'a browser that is gone is waited for'(home, site, stack) {
    const p = await home.open()
    stack.signal('pipehost', 'SIGSTOP')
    try {
      await p.task(approve(site, zhang))
      await p.get('state-browser-gone').waitFor({ timeout: 2 * stepMs })
      await p.accessible('browser gone')
      await p.shot('browser-gone')
    } finally {
      stack.signal('pipehost', 'SIGCONT')
    }
    await p.allow(zhang)
    await p.result('done')
    await p.get('state-browser-gone').waitFor({ state: 'detached' })
    await p.close()
  },
}
