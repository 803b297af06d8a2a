import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { AgentEvent } from '../model/event'
import { emptySession, queuedRuns, reduceSession, shownRun } from '../model/session'
import { BridgeBackend } from './bridge'

let calls: { name: string; params: object }[]
let respond: (name: string) => { success: boolean; error?: string; code?: string; task_id?: string }
let events: AgentEvent[]
let backend: BridgeBackend

beforeEach(() => {
  calls = []
  events = []
  respond = () => ({ success: true })
  backend = new BridgeBackend((name, params, callback) => {
    calls.push({ name, params })
    queueMicrotask(() => callback(respond(name)))
  })
  backend.open()
  backend.watch('', () => {}, (e) => events.push(e))
})
afterEach(() => {
  delete window.sgClawEvents
  vi.useRealTimers()
})

const told = () => events.reduce(reduceSession, emptySession('host'))
const run = () => shownRun(told())!

test('calls the functions of seed 001 §4.1 as they are there', async () => {
  await backend.host.start()
  await backend.send({ session: '', text: '导出本月合规报表', id: 'x' })
  window.sgClawEvents!.onConfirmRequired({ id: 'abc123', type: 'sessionLogin', domain: 'erp.example.com' })
  await backend.answer('x', run().question!, { approved: true })
  await backend.host.stop()
  expect(calls).toEqual([
    { name: 'sgclaw_start', params: {} },
    { name: 'sgclaw_submit_task', params: { instruction: '导出本月合规报表' } },
    { name: 'sgclaw_confirm', params: { action_id: 'abc123', approved: true } },
    { name: 'sgclaw_stop', params: {} },
  ])
})

test('a task from beginning to end, with no more than the seed has', async () => {
  const states: string[] = []
  const lines: string[] = []
  backend.host.onState((s) => states.push(s))
  backend.host.onLine((l) => lines.push(`${l.time} ${l.level} ${l.message}`))
  const host = window.sgClawEvents!
  host.onStateChanged('starting')
  host.onStateChanged('running')
  await backend.send({ session: '', text: 'T', id: 'x' })
  expect(run()).toMatchObject({ task: 'T', status: 'thinking' })
  host.onLogEntry({ time: '10:23:01', message: '正在分析指令...', level: 'info' })
  host.onConfirmRequired({ id: 'abc123', type: 'sessionLogin', domain: 'erp.example.com' })
  expect(run().question).toMatchObject({ id: 'abc123', action: 'sessionLogin', ask: { domain: 'erp.example.com' } })
  await backend.answer('x', run().question!, { approved: false, note: 'not now' })
  expect(run().question).toBeUndefined()
  host.onTaskCompleted({ success: true, summary: '已成功导出3份报表' })
  expect(run()).toMatchObject({ status: 'done', summary: '已成功导出3份报表' })
  expect(states).toEqual(['stopped', 'starting', 'running'])
  expect(lines).toEqual(['10:23:01 info 正在分析指令...'])
  expect(calls.at(-1)!.params).toEqual({ action_id: 'abc123', approved: false, note: 'not now' })
})

test('tasks that the host names are told apart', async () => {
  const ids = ['t1', 't2']
  respond = () => ({ success: true, task_id: ids.shift() })
  await backend.send({ session: '', text: 'one', id: 'x' })
  await backend.send({ session: '', text: 'two', id: 'y' })
  expect(run().id).toBe('t1')
  expect(queuedRuns(told()).map((r) => r.task)).toEqual(['two'])
  window.sgClawEvents!.onTaskCompleted({ success: false, status: 'failed', reason: 'GAVE_UP', summary: 'no', task_id: 't1' })
  expect(told().runs.t1).toMatchObject({ status: 'failed', reason: 'GAVE_UP' })
  expect(run()).toMatchObject({ id: 't2', status: 'thinking' })
})

test('questions come one after the other, and go when they are settled elsewhere', () => {
  const host = window.sgClawEvents!
  host.onConfirmRequired({ id: 'q1', type: 'click' })
  host.onConfirmRequired({ id: 'q2', type: 'type' })
  expect(run().question?.id).toBe('q1')
  host.onConfirmClosed({ id: 'q1' })
  expect(run().question?.id).toBe('q2')
  host.onConfirmClosed({ id: 'q2' })
  expect(run().question).toBeUndefined()
})

test('a page that was loaded again keeps the name of a task whose end is told anew', async () => {
  await backend.send({ session: '', text: 'T', id: 'x' })
  window.sgClawEvents!.onStateChanged('stopped')
  expect(run()).toMatchObject({ status: 'aborted', reason: 'HOST_STOPPED' })
  window.sgClawEvents!.onTaskCompleted({ success: true, summary: 'after all', task_id: 'x' })
  expect(run()).toMatchObject({ task: 'T', status: 'done', summary: 'after all' })
})

test('says why the host refused', async () => {
  respond = () => ({ success: false, error: '智能体未运行', code: 'NOT_RUNNING' })
  await expect(backend.host.start()).rejects.toMatchObject({ code: 'NOT_RUNNING', message: '智能体未运行' })
  respond = () => ({ success: false })
  await expect(backend.send({ session: '', text: 'T', id: 'x' })).rejects.toMatchObject({ code: 'HOST' })
  expect(events).toEqual([])
})

test('a host that does not answer is not waited for for ever', async () => {
  vi.useFakeTimers()
  const silent = new BridgeBackend(() => {})
  const failed = silent.host.start().catch((err: unknown) => err)
  await vi.advanceTimersByTimeAsync(30_000)
  expect(await failed).toMatchObject({ code: 'TIMEOUT' })
})
