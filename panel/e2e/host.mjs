// What a person does with the panel in the browser that the agent works in,
// without a gateway: panel, sgFunctionsUI, browserhost, pipe, agent and back.
import assert from 'node:assert/strict'
import { until } from './lib/processes.mjs'

const zhang = '张三'
const wang = '王五'
const wu = '吴九'
const approve = (site, ...names) => `打开 ${site.url}/ ，批准${names.join('、')}的请假单`

export const hostFlows = {
  async 'a task is given, allowed, and has a result'(home, site) {
    const p = await home.open()
    await p.light('running')
    await p.accessible('running')
    await p.shot('running')
    await p.task(approve(site, zhang))
    const card = await p.asked(zhang)
    assert.equal(await p.get('confirm-domain').innerText(), '127.0.0.1')
    await card.getByRole('img').waitFor()
    assert.deepEqual(await site.done(), [], 'done before anybody agreed')
    await p.accessible('question')
    await p.fits('question')
    await p.shot('question')
    await p.allow(zhang)
    const result = await p.result('done')
    await result.getByTestId('summary').waitFor()
    assert.match(await p.get('log').innerText(), /\d\d:\d\d:\d\d.*批准/)
    assert.deepEqual(await site.done(), ['approve LR-2001'])
    await p.accessible('result')
    await p.shot('result')
    // The page that the agent works on has none of this.
    assert.equal(await home.work().evaluate(() => typeof window.sgFunctionsUI), 'undefined')
  },

  async 'one thing is refused with a note, another allowed'(home, site) {
    const p = await home.open()
    await p.task(approve(site, zhang, wang))
    await p.refuse(zhang, '他这个月已经请过假')
    await p.allow(wang)
    await p.result('done', wang)
    assert.deepEqual(await site.done(), ['approve LR-2003'])
  },

  async 'a yes for the run is not asked for again'(home, site) {
    const p = await home.open()
    await p.task(approve(site, zhang, wang, wu))
    await (await p.asked(zhang)).getByTestId('confirm-allow-run').click()
    await p.result('done', wu)
    assert.deepEqual((await site.done()).sort(), ['approve LR-2001', 'approve LR-2003', 'approve LR-2007'])
  },

  async 'a question is still there after the panel was loaded again'(home, site) {
    const p = await home.open()
    await p.task(approve(site, wu))
    await p.asked(wu)
    await p.page.reload()
    await p.allow(wu)
    await p.result('done')
    assert.deepEqual(await site.done(), ['approve LR-2007'])
  },

  async 'a question that is answered elsewhere goes away'(home, site, stack) {
    const p = await home.open()
    await p.task(approve(site, zhang))
    await p.asked(zhang)
    await stack.starter('confirm', await stack.openRun(site.url))
    await p.result('done')
    await p.get('confirm-card').waitFor({ state: 'detached' })
    assert.deepEqual(await site.done(), ['approve LR-2001'])
  },

  async 'the agent is stopped and started'(home) {
    const p = await home.open()
    await p.get('agent-stop').click()
    await p.light('stopped')
    await p.get('state-host-stopped').waitFor()
    await p.accessible('stopped')
    await p.shot('stopped')
    assert.equal(await p.get('task-send').getAttribute('aria-disabled'), 'true')
    await p.get('agent-start').click()
    await p.light('running')
  },

  async 'an agent that dies is told of and started again'(home, site, stack) {
    const p = await home.open()
    const [host] = [home.program.child.pid]
    for (const pid of stack.pids('pipehost', [host])) process.kill(pid, 'SIGKILL')
    await p.light('error')
    await p.get('state-host-error').waitFor()
    await p.accessible('died')
    await p.shot('died')
    await p.get('agent-start').click()
    await p.light('running')
    await until('no error any more', async () => !(await p.get('state-host-error').isVisible()))
  },

  async 'language and colours are chosen'(home) {
    const p = await home.open()
    await p.go('settings')
    await p.accessible('settings')
    await p.fits('settings')
    await p.page.getByLabel('Colours').selectOption('dark')
    await p.page.getByLabel('Language').selectOption('zh')
    await p.page.getByRole('heading', { name: '设置' }).waitFor()
    await p.accessible('settings, dark, Chinese')
    await p.shot('settings-dark-zh')
    await p.go('agent')
    await p.accessible('agent, dark, Chinese')
    await p.go('settings')
    await p.page.getByLabel('语言').selectOption('en')
    await p.page.getByLabel('Colours').selectOption('system')
    await p.go('agent')
  },
}
