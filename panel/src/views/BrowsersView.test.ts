import { flushPromises } from '@vue/test-utils'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { FakeBackend, show } from '../../test/app'
import BrowsersView from './BrowsersView.vue'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] }))
afterEach(() => {
  vi.useRealTimers()
  document.body.innerHTML = ''
})

test('a question is answered in its browser, and goes even if the list still has it', async () => {
  const confirmation = { id: 'q', step: 1, action: 'click', ask: { name: 'Approve' }, digest: 'd', since: '' }
  const backend = new FakeBackend('approver', {
    browsers: () => Promise.resolve([{ id: 'b1', online: true, runs: ['r'] }, { id: 'b2', online: false, seenAt: '2026-01-01T00:00:00Z', runs: [] }]),
    confirmations: () => Promise.resolve([
      { runId: 'r', sessionKey: 'x', browser: 'b1', task: 'T', confirmation }, { runId: 'o', sessionKey: 'x', browser: 'b2', task: 'O', confirmation: { ...confirmation, id: 'other' } },
    ]),
  })
  const { wrapper, app, get } = await show(BrowsersView, backend, { id: 'b1' })
  expect(wrapper.findAll('[data-testid=browser-row]')).toHaveLength(2)
  expect(wrapper.findAll('[data-testid=confirm-card]')).toHaveLength(1)
  vi.advanceTimersByTime(600)
  await flushPromises()
  await get('confirm-refuse').trigger('click')
  await flushPromises()
  expect(backend.answer).toHaveBeenCalledWith('r', confirmation, expect.objectContaining({ approved: false }))
  await app.refreshAsked()
  await flushPromises()
  expect(get('confirm-card').exists()).toBe(false)
  wrapper.unmount()
})
