import { flushPromises } from '@vue/test-utils'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { FakeBackend, show } from '../../test/app'
import { RequestError } from '../backend/backend'
import type { Role } from '../backend/backend'
import type { Confirmation } from '../model/event'
import ConfirmCard from './ConfirmCard.vue'

const question: Confirmation = {
  id: 'q', step: 4, action: 'click', params: { selector: '[ref=e27]' }, digest: 'd', since: '2026-01-01T00:00:00Z',
  ask: { role: 'button', name: '批准<img src=x onerror=alert(1)>', context: 'LR-2001 张三', url: 'http://oa/leave', domain: 'oa', prompt: { zh: '批准请假？', en: 'Approve?' } },
}

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
afterEach(() => {
  vi.useRealTimers()
  document.body.innerHTML = ''
})

async function card(role: Role = 'approver', lang: 'en' | 'zh' = 'en') {
  const backend = new FakeBackend(role)
  const shown = await show(ConfirmCard, backend, { runId: 'r', question }, lang)
  const wait = async () => {
    vi.advanceTimersByTime(600)
    await flushPromises()
  }
  return { backend, ...shown, wait }
}

test('says what, where and with what, as text', async () => {
  const { wrapper, get } = await card()
  expect(wrapper.text()).toContain('Click')
  expect(wrapper.text()).toContain('批准<img src=x onerror=alert(1)>')
  expect(wrapper.find('img').exists()).toBe(false)
  expect(get('confirm-domain').text()).toBe('oa')
  expect(get('confirm-params').text()).toContain('[ref=e27]')
  expect(wrapper.text()).toContain('Approve?')
  expect((await card('approver', 'zh')).wrapper.text()).toContain('批准请假？')
})

describe('is not answered by accident', () => {
  test('takes no answer in its first moments', async () => {
    const { backend, get, wait } = await card()
    vi.advanceTimersByTime(500)
    await flushPromises()
    await get('confirm-allow').trigger('click')
    expect(backend.answer).not.toHaveBeenCalled()
    await wait()
    await get('confirm-allow').trigger('click')
    expect(backend.answer).toHaveBeenCalledOnce()
  })

  test('is armed anew for another question', async () => {
    const { backend, wrapper, get, wait } = await card()
    await wait()
    await wrapper.setProps({ question: { ...question, id: 'q2' } })
    await get('confirm-allow').trigger('click')
    expect(backend.answer).not.toHaveBeenCalled()
  })

  test('has no default button, and Enter in the note answers nothing', async () => {
    const { backend, wrapper, get, wait } = await card()
    await wait()
    expect(wrapper.find('form').exists()).toBe(false)
    expect(wrapper.findAll('button').map((b) => b.attributes('type'))).toEqual(['button', 'button', 'button'])
    expect(wrapper.element.contains(document.activeElement)).toBe(false)
    await get('confirm-note').trigger('keydown', { key: 'Enter' })
    expect(backend.answer).not.toHaveBeenCalled()
  })

  test('does not take a key that is held down', async () => {
    const { get, wait } = await card()
    await wait()
    const held = new KeyboardEvent('keydown', { key: 'Enter', repeat: true, bubbles: true, cancelable: true })
    get('confirm-allow').element.dispatchEvent(held)
    expect(held.defaultPrevented).toBe(true)
  })

  test('is sent once', async () => {
    const { backend, get, wait } = await card()
    await wait()
    await get('confirm-allow').trigger('click')
    await get('confirm-refuse').trigger('click')
    expect(backend.answer).toHaveBeenCalledOnce()
  })
})

describe('answers', () => {
  test.each([
    ['confirm-allow', { approved: true, forRun: false, note: undefined }],
    ['confirm-allow-run', { approved: true, forRun: true, note: undefined }],
    ['confirm-refuse', { approved: false, forRun: false, note: undefined }],
  ])('%s', async (button, reply) => {
    const { backend, get, wait } = await card()
    await wait()
    await get(button).trigger('click')
    expect(backend.answer).toHaveBeenCalledWith('r', question, reply)
  })

  test('with a note', async () => {
    const { backend, get, wait } = await card()
    await wait()
    await get('confirm-note').setValue(' only short leave ')
    await get('confirm-refuse').trigger('click')
    expect(backend.answer.mock.calls[0]![2]).toMatchObject({ approved: false, note: 'only short leave' })
  })
})

test('whoever may not answer sees why', async () => {
  const { backend, wrapper, get, wait } = await card('user')
  await wait()
  expect(get('confirm-allow').attributes('aria-disabled')).toBe('true')
  expect(wrapper.text()).toContain('Needs the role “approver”; you are “user”.')
  await get('confirm-allow').trigger('click')
  expect(backend.answer).not.toHaveBeenCalled()
})

test('an answer that came too late is said, and another can be given', async () => {
  const { app, backend, get, wait } = await card()
  await wait()
  backend.answer.mockRejectedValueOnce(new RequestError('DIGEST_MISMATCH', 'x'))
  await get('confirm-allow').trigger('click')
  await flushPromises()
  expect(get('confirm-said').text()).toMatch(/What is asked has changed/)
  expect(app.urgent.value).toMatch(/What is asked has changed/)
  await get('confirm-refuse').trigger('click')
  expect(backend.answer).toHaveBeenCalledTimes(2)
})

test('is announced', async () => {
  const { app } = await card()
  expect(app.urgent.value).toContain('The agent asks for permission: Click 批准')
})
