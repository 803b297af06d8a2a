// What a person does with the panel at a gateway. Each flow gets a home, and a
// demo site of its own; 张三 asks for 2 days of leave, 王五 for half a day,
// 吴九 for one.
import assert from 'node:assert/strict'
import { until } from './lib/processes.mjs'

const zhang = '张三'
const wang = '王五'
const wu = '吴九'
const approve = (site, ...names) => `打开 ${site.url}/ ，批准${names.join('、')}的请假单`

/** In every home with a gateway. */
export const flows = {
  async 'a task is given, its steps are watched, it is allowed, and has a result'(home, site) {
    const p = await home.open()
    await p.get('state-empty').waitFor()
    await p.accessible('nothing running yet')
    await p.shot('empty')
    await p.task(approve(site, zhang))
    const card = await p.asked(zhang)
    await p.get('timeline').getByTestId('step').first().waitFor()
    assert.match(await card.innerText(), /Click.*批准/s)
    assert.equal(await p.get('confirm-domain').innerText(), '127.0.0.1')
    assert.match(await p.get('confirm-params').innerText(), /selector/)
    await card.getByRole('img').waitFor()
    assert.deepEqual(await site.done(), [], 'done before anybody agreed')
    await p.accessible('question')
    await p.fits('question')
    await p.shot('question')
    await p.allow(zhang)
    const result = await p.result('done')
    await p.get('confirm-card').waitFor({ state: 'detached' })
    assert.match(await result.getByTestId('steps').innerText(), /\d/)
    assert.match(await result.getByTestId('tokens').innerText(), /\d/)
    assert.match(await result.getByTestId('elapsed').innerText(), /\d/)
    assert.match(await p.get('log').innerText(), /批准/)
    assert.deepEqual(await site.done(), ['approve LR-2001'])
    await p.get('timeline').getByText('Thinking').first().click()
    await p.accessible('result')
    await p.shot('result')
    await p.close()
  },

  async 'one thing is refused with a note, another allowed'(home, site) {
    const p = await home.open()
    await p.task(approve(site, zhang, wang))
    await p.refuse(zhang, '他这个月已经请过假')
    await p.allow(wang)
    await p.result('done')
    assert.match(await p.get('log').innerText(), /Refused.*他这个月已经请过假/)
    assert.deepEqual(await site.done(), ['approve LR-2003'])
    await p.shot('refused')
    await p.close()
  },

  async 'a yes for the run is not asked for again'(home, site) {
    const p = await home.open()
    await p.task(approve(site, zhang, wang, wu))
    await (await p.asked(zhang)).getByTestId('confirm-allow-run').click()
    await p.result('done')
    assert.deepEqual((await site.done()).sort(), ['approve LR-2001', 'approve LR-2003', 'approve LR-2007'])
    await p.close()
  },

  async 'a run is steered'(home, site) {
    const p = await home.open()
    await p.task(approve(site, zhang, wang))
    await p.asked(zhang)
    await p.get('steer-input').fill(`不要批准${wang}`)
    await p.get('steer-send').click()
    await p.get('timeline').getByText(`不要批准${wang}`).waitFor()
    await p.shot('steered')
    await p.allow(zhang)
    await p.result('done')
    assert.deepEqual(await site.done(), ['approve LR-2001'])
    await p.close()
  },

  async 'a message waits for its turn, another goes first'(home, site) {
    const p = await home.open()
    await p.task(approve(site, zhang))
    await p.asked(zhang)
    await p.task(approve(site, wang), 'queue')
    await p.get('queue').getByText(wang).waitFor()
    await p.shot('queue')
    await p.task(approve(site, wu), 'interrupt')
    await p.allow(wu)
    // The one that waited comes after the one that went first.
    await p.allow(wang)
    await p.result('done', wang)
    assert.deepEqual(await site.done(), ['approve LR-2007', 'approve LR-2003'])
    await p.go('history')
    await p.get('run-row').filter({ hasText: approve(site, zhang) }).getByText('Stopped').waitFor()
    await p.close()
  },

  async 'a task is stopped'(home, site) {
    const p = await home.open()
    await p.task(approve(site, zhang))
    await p.asked(zhang)
    await p.get('stop-task').click()
    await p.get('stop-dialog').waitFor()
    await p.accessible('dialog')
    await p.shot('stop')
    await p.get('dialog-cancel').click()
    await p.get('stop-task').click()
    await p.get('dialog-go').click()
    await p.result('aborted')
    assert.deepEqual(await site.done(), [])
    await p.close()
  },

  async 'a task that cannot be done says what to do next'(home, site) {
    const p = await home.open()
    await p.task('打开 https://not-allowed.example/ ，批准张三的请假单')
    const result = await p.result('failure')
    assert.match(await result.getByTestId('next').innerText(), /What to do next: \S/)
    await p.accessible('failure')
    await p.shot('failure')
    await p.close()
  },

  async 'history is searched and a run rewound'(home, site) {
    const p = await home.open()
    await p.task(approve(site, zhang))
    await p.refuse(zhang)
    await p.result('done')
    await p.go('history')
    await p.get('history-search').fill(site.url)
    const row = p.get('run-row').filter({ hasText: site.url })
    await until('only runs that match', async () => (await p.get('run-row').count()) === (await row.count()))
    await p.accessible('history')
    await p.fits('history')
    await p.shot('history')
    await row.first().getByRole('link').first().click()
    await p.get('run').getByTestId('step').first().waitFor()
    await p.accessible('run')
    await p.shot('run')
    await p.get('run').getByTestId('rewind').first().click()
    await p.get('rewind-text').fill(`也批准${wang}`)
    await p.accessible('rewind')
    await p.get('dialog-go').click()
    await p.go('agent')
    await p.allow(zhang)
    await p.allow(wang)
    await p.result('done')
    assert.deepEqual(await site.done(), ['approve LR-2001', 'approve LR-2003'])
    await p.close()
  },

  async 'sessions are named, shown, begun anew and deleted'(home, site) {
    const p = await home.open()
    await p.task(approve(site, zhang))
    await p.allow(zhang)
    await p.result('done')
    await p.go('sessions')
    await p.get('sessions-search').fill(p.session)
    const row = p.get('session-row').filter({ hasText: p.session })
    await row.getByTestId('session-rename').click()
    await p.get('session-label').fill(`午后 ${p.session}`)
    await p.accessible('rename')
    await p.get('dialog-go').click()
    await row.getByText(`午后 ${p.session}`).waitFor()
    await p.accessible('sessions')
    await p.fits('sessions')
    await p.shot('sessions')
    await row.getByTestId('session-use').click()
    await p.result('done')
    await p.go('sessions')
    await p.get('sessions-search').fill(p.session)
    await row.getByTestId('session-reset').click()
    await p.get('dialog-go').click()
    await p.get('session-dialog').waitFor({ state: 'detached' })
    await row.getByTestId('session-delete').click()
    await p.get('dialog-go').click()
    await row.waitFor({ state: 'detached' })
    await p.close()
  },
}
