import { flushPromises } from '@vue/test-utils'
import { afterEach, describe, expect, test } from 'vitest'
import { FakeBackend, healthy, show } from '../../test/app'
import { click, teller, tokens } from '../../test/events'
import LinkState from '../components/LinkState.vue'
import { RequestError } from '../backend/backend'
import type { Health, Link, Role } from '../backend/backend'
import { en } from '../i18n/en'
import AgentView from './AgentView.vue'

afterEach(() => void (document.body.innerHTML = ''))

async function view(role: Role = 'operator', health: Partial<Health> = {}) {
  const backend = new FakeBackend(role)
  backend.health = { ...healthy, ...health }
  const shown = await show(AgentView, backend)
  const tell = teller()
  const say = async (...events: Parameters<typeof backend.tell>) => {
    backend.tell(...events)
    await flushPromises()
  }
  const begin = () => say(tell('accepted', 'r', { task: 'do it', browser: 'b' }), tell('state', 'r', { status: 'thinking' }))
  const end = (reason: string, status: 'failed' | 'refused' | 'aborted' | 'done' = 'failed') =>
    say(tell('done', 'r', { run_id: 'r', status, success: status === 'done', reason, summary: 'sum<b>mary</b>', token_usage: tokens(1234), duration_ms: 61_000 }))
  return { backend, tell, say, begin, end, ...shown }
}

describe('states that a person meets', () => {
  test('nothing running yet, with examples that fill the field and send nothing', async () => {
    const { backend, get } = await view()
    expect(get('state-empty').exists()).toBe(true)
    await get('state-empty').find('li button').trigger('click')
    expect((get('task-input').element as HTMLTextAreaElement).value).toBe(en.examples[0])
    expect(backend.send).not.toHaveBeenCalled()
  })

  test.each([
    ['state-agent-offline', { worker: { ok: false } }],
    ['state-model-missing', { model: { configured: false } }],
    ['state-browser-gone', { browsers: { online: 0, total: 1 } }],
    ['state-service', { temporal: { ok: false } }],
  ] as [string, Partial<Health>][])('%s', async (id, health) => {
    expect((await view('operator', health)).get(id).exists()).toBe(true)
    expect((await view()).get(id).exists()).toBe(false)
  })

  test('the browser of the run is gone', async () => {
    const { get, say, begin, tell } = await view()
    await begin()
    await say(tell('state', 'r', { status: 'browser_offline' }))
    expect(get('state-browser-gone').text()).toContain(en.states.browserGone.text)
  })

  test('a long wait', async () => {
    const { get, begin } = await view()
    await begin() // the events are months old
    expect(get('state-long-wait').text()).toContain('The model has been thinking')
  })

  test.each(Object.entries(en.reason).filter(([code]) => code === code.toUpperCase() && code !== 'STEERED'))('failure with %s says what to do next', async (code, words) => {
    const { get, begin, end } = await view()
    await begin()
    await end(code)
    expect(get('state-failure').attributes('data-reason')).toBe(code)
    expect(get('result').text()).toContain(words.what)
    expect(get('next').text()).toContain(words.next)
  })

  test('a reason that is not known is a failure like another', async () => {
    const { get, begin, end } = await view()
    await begin()
    await end('SOMETHING_NEW')
    expect(get('next').text()).toContain(en.reason.other.next)
  })

  test.each([['refused', 'state-refused'], ['aborted', 'state-aborted'], ['done', 'state-done']] as const)('%s', async (status, id) => {
    const { get, begin, end } = await view()
    await begin()
    await end('', status)
    expect(get(id).exists()).toBe(true)
    expect(get('summary').text()).toBe('sum<b>mary</b>')
  })

  test.each([
    [{ state: 'token' }, 'state-token'],
    [{ state: 'refused', code: 'AUTH_TOKEN_MISMATCH', message: '' }, 'state-bad-token'],
    [{ state: 'refused', code: 'PROTOCOL_MISMATCH', message: '' }, 'state-refused-link'],
    [{ state: 'lost', since: 0, retryAt: Date.now() + 5_000, everOpen: true }, 'state-reconnecting'],
    [{ state: 'connecting' }, 'state-connecting'],
  ] as [Link, string][])('connection: %o', async (link, id) => {
    const backend = new FakeBackend('user')
    const { get } = await show(LinkState, backend, { address: 'ws://gw/ws' })
    backend.link(link)
    await flushPromises()
    expect(get(id).exists()).toBe(true)
  })

  test('without a token it is asked for', async () => {
    const { get } = await show(LinkState, undefined, { address: 'ws://gw/ws' })
    expect(get('state-token').exists()).toBe(true)
    expect(get('token-input').attributes('type')).toBe('password')
  })
})

describe('a task', () => {
  test('is sent to the session that is shown', async () => {
    const { backend, get } = await view()
    await get('task-input').setValue('  do it ')
    await get('task-send').element.closest('form')!.dispatchEvent(new Event('submit'))
    await flushPromises()
    expect(backend.send.mock.calls[0]![0]).toMatchObject({ session: 's', text: 'do it', mode: undefined })
    expect((get('task-input').element as HTMLTextAreaElement).value).toBe('')
  })

  test('is sent by Ctrl+Enter, not by Enter, nor while characters are composed', async () => {
    const { backend, get } = await view()
    await get('task-input').setValue('do it')
    await get('task-input').trigger('keydown', { key: 'Enter' })
    await get('task-input').trigger('keydown', { key: 'Enter', ctrlKey: true, isComposing: true })
    expect(backend.send).not.toHaveBeenCalled()
    await get('task-input').trigger('keydown', { key: 'Enter', ctrlKey: true })
    expect(backend.send).toHaveBeenCalledOnce()
  })

  test('stays in its field when it could not be sent', async () => {
    const { backend, get } = await view()
    backend.send.mockRejectedValueOnce(new RequestError('RATE_LIMITED', 'x'))
    await get('task-input').setValue('do it')
    await get('task-input').trigger('keydown', { key: 'Enter', ctrlKey: true })
    await flushPromises()
    expect(get('send-error').text()).toBe(en.error.RATE_LIMITED)
    expect((get('task-input').element as HTMLTextAreaElement).value).toBe('do it')
  })

  test('that is too long is not sent', async () => {
    const { backend, get } = await view()
    await get('task-input').setValue('字'.repeat(11_000))
    await get('task-input').trigger('keydown', { key: 'Enter', ctrlKey: true })
    expect(backend.send).not.toHaveBeenCalled()
  })

  test.each(['queue', 'steer', 'interrupt'])('to a busy agent: %s', async (mode) => {
    const { backend, get, begin } = await view()
    expect(get('mode').exists()).toBe(false)
    await begin()
    await get(`mode-${mode}`).setValue(true)
    await get('task-input').setValue('more')
    await get('task-input').trigger('keydown', { key: 'Enter', ctrlKey: true })
    await flushPromises()
    expect(backend.send.mock.calls[0]![0]).toMatchObject({ text: 'more', mode })
  })

  test('is steered with "also"', async () => {
    const { backend, get, begin } = await view()
    await begin()
    await get('steer-input').setValue('and list them')
    await get('steer-send').element.closest('form')!.dispatchEvent(new Event('submit'))
    await flushPromises()
    expect(backend.send.mock.calls[0]![0]).toMatchObject({ text: 'and list them', mode: 'steer' })
  })

  test('cannot be given by a viewer, who sees why', async () => {
    const { backend, get } = await view('viewer')
    await get('task-input').setValue('do it')
    await get('task-input').trigger('keydown', { key: 'Enter', ctrlKey: true })
    expect(backend.send).not.toHaveBeenCalled()
    expect(get('task-send').attributes('aria-disabled')).toBe('true')
    expect(get('task-send').attributes('title')).toContain('“user”')
  })
})

describe('a run', () => {
  test('is shown as it goes on, and its question above all', async () => {
    const { get, say, begin, tell } = await view()
    await begin()
    await say(
      tell('thought', 'r', { step: 1, text: '<script>x</script> I click', calls: [click('c1')], usage: tokens(2500), took_ms: 900 }),
      tell('confirm_required', 'r', { id: 'q', step: 1, action: 'click', ask: { name: 'Delete', domain: 'oa' }, digest: '', since: '' }),
    )
    expect(get('confirm-card').exists()).toBe(true)
    expect(get('timeline').find('details').attributes('open')).toBeUndefined()
    expect(get('timeline').text()).toContain('<script>x</script> I click')
    expect(get('tokens').text()).toBe('2,500')
    expect(get('log').text()).toContain('Asks: Click Delete oa')
    await say(tell('confirmed', 'r', { confirm_id: 'q', approved: true, by: 'ben' }))
    expect(get('confirm-card').exists()).toBe(false)
    expect(get('timeline').text()).toContain('ben')
  })

  test('that was stopped in the middle of something is not under way any more', async () => {
    const { get, say, begin, end, tell } = await view()
    await begin()
    await say(tell('thought', 'r', { step: 1, text: 't', calls: [click('c1')], usage: tokens(2), took_ms: 1 }))
    expect(get('step').text()).toContain(en.outcome.pending)
    await end('ABORTED', 'aborted')
    expect(get('step').text()).toContain(en.outcome.none)
  })

  test('can be rewound by operators only', async () => {
    for (const role of ['approver', 'operator'] as const) {
      const { get, say, begin, tell } = await view(role)
      await begin()
      await say(tell('thought', 'r', { step: 1, text: 't', calls: [click('c1')], usage: tokens(2), took_ms: 1 }))
      expect(get('rewind').attributes('aria-disabled')).toBe(role === 'operator' ? undefined : 'true')
    }
  })

  test('is announced when it ends', async () => {
    const { app, begin, end } = await view()
    await begin()
    await end('', 'done')
    expect(app.polite.value).toContain('Result: Done')
  })
})
