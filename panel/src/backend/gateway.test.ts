import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { teller } from '../../test/events'
import { flush, MockGateway, Refused } from '../../test/gateway'
import type { AgentEvent } from '../model/event'
import type { Link } from './backend'
import { GatewayBackend } from './gateway'

let mock: MockGateway
let backend: GatewayBackend
let links: Link[]

beforeEach(() => {
  vi.useFakeTimers()
  mock = new MockGateway()
  backend = new GatewayBackend({ url: 'ws://gw/ws', token: 'secret', locale: 'zh', version: '1' })
  links = []
  backend.onLink((l) => links.push(l))
  backend.open()
})

afterEach(() => {
  backend.close()
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

const state = () => links.at(-1)!.state

describe('connecting', () => {
  test('shakes hands as OpenClaw clients do', async () => {
    await mock.accept()
    expect(mock.socket.url).toBe('ws://gw/ws')
    expect(mock.of('connect')[0]).toMatchObject({
      minProtocol: 4, maxProtocol: 4, client: { id: 'webchat-ui', mode: 'webchat' }, role: 'operator', auth: { token: 'secret' }, locale: 'zh',
    })
    expect(state()).toBe('open')
    expect(backend.mainSession).toBe('agent:main:main')
  })

  test('says nothing before it is challenged', () => {
    expect(mock.requests).toEqual([])
  })

  test.each(['AUTH_TOKEN_MISMATCH', 'AUTH_TOKEN_MISSING', 'PROTOCOL_MISMATCH', 'CONTROL_UI_ORIGIN_NOT_ALLOWED'])('gives up after %s', async (code) => {
    mock.answers.connect = () => { throw new Refused('INVALID_REQUEST', code) }
    await mock.accept()
    expect(links.at(-1)).toEqual({ state: 'refused', code, message: 'INVALID_REQUEST' })
    await vi.advanceTimersByTimeAsync(120_000)
    expect(mock.sockets).toHaveLength(1)
  })

  test.each([['UNAVAILABLE', undefined, true], ['INVALID_REQUEST', 'AUTH_RATE_LIMITED', false]] as const)('tries again after %s %s', async (code, detail, retryable) => {
    mock.answers.connect = () => { throw new Refused(code, detail, retryable) }
    await mock.accept()
    mock.drop()
    expect(state()).toBe('lost')
    await vi.advanceTimersByTimeAsync(1_000)
    expect(mock.sockets).toHaveLength(2)
  })

  test('waits longer from time to time, half a minute at most', async () => {
    const waits = []
    for (let i = 0; i < 7; i++) {
      mock.drop()
      const l = links.at(-1)!
      if (l.state !== 'lost') throw new Error(l.state)
      waits.push(l.retryAt - Date.now())
      await vi.advanceTimersByTimeAsync(l.retryAt - Date.now())
      expect(mock.sockets).toHaveLength(i + 2)
    }
    expect(waits).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000])
  })

  test('begins with short waits again once it was connected', async () => {
    for (let i = 0; i < 4; i++) {
      mock.drop()
      backend.hurry()
    }
    await mock.accept()
    mock.drop()
    expect(links.at(-1)).toMatchObject({ state: 'lost', retryAt: Date.now() + 1_000, everOpen: true })
  })

  test('hangs up on a gateway that says nothing for two ticks', async () => {
    await mock.accept()
    await vi.advanceTimersByTimeAsync(50_000)
    mock.event('tick', { ts: 1 })
    await vi.advanceTimersByTimeAsync(50_000)
    expect(state()).toBe('open')
    await vi.advanceTimersByTimeAsync(10_000)
    expect(state()).toBe('lost')
    expect(mock.socket.closedWith).toBe(4000)
  })

  test('hangs up on a gateway that does not challenge', async () => {
    await vi.advanceTimersByTimeAsync(15_000)
    expect(state()).toBe('lost')
  })
})

describe('watching', () => {
  const seen: AgentEvent[] = []
  let started: number[]
  beforeEach(() => {
    seen.length = 0
    started = []
  })
  const watch = (session = 's') => backend.watch(session, (seq) => started.push(seq), (e) => seen.push(e))
  const seqs = () => seen.map((e) => e.seq)
  const state = (tell: ReturnType<typeof teller>) => tell('state', 'r', { status: 'thinking' })

  test('tells the newest events and then those to come', async () => {
    mock.answers['sgclaw.watch'] = (p) => ({ sessionKey: p.sessionKey, lastSeq: 1000 })
    await mock.accept()
    watch()
    await flush()
    expect(mock.of('sgclaw.watch')).toEqual([{ sessionKey: 's' }, { sessionKey: 's', after: 600 }])
    expect(started).toEqual([600])
    const tell = teller()
    const all = Array.from({ length: 602 }, () => state(tell))
    for (const e of all.slice(600)) mock.event('sgclaw.event', e)
    expect(seqs()).toEqual([601, 602])
  })

  test('takes the key of the session as the gateway writes it', async () => {
    mock.answers['sgclaw.watch'] = () => ({ sessionKey: 's', lastSeq: 0 })
    await mock.accept()
    const keys: string[] = []
    backend.watch('S', (_, key) => keys.push(key), (e) => seen.push(e))
    await flush()
    mock.event('sgclaw.event', state(teller()))
    expect(keys).toEqual(['s'])
    expect(seqs()).toEqual([1])
  })

  test('each event once, and asks for what is missing', async () => {
    await mock.accept()
    watch()
    await flush()
    const tell = teller()
    const e = Array.from({ length: 6 }, () => state(tell))
    const say = (...ns: number[]) => ns.forEach((n) => mock.event('sgclaw.event', e[n - 1]))
    say(1, 1, 2)
    say(5, 6)
    await flush()
    expect(seqs()).toEqual([1, 2])
    expect(mock.of('sgclaw.watch').slice(1)).toEqual([{ sessionKey: 's', after: 2 }])
    say(3, 4, 5, 6, 6)
    expect(seqs()).toEqual([1, 2, 3, 4, 5, 6])
  })

  test('goes on where it was when the connection is back', async () => {
    await mock.accept()
    watch()
    await flush()
    const tell = teller()
    mock.event('sgclaw.event', state(tell))
    mock.drop()
    await vi.advanceTimersByTimeAsync(1_000)
    await mock.accept()
    await flush()
    expect(mock.of('sgclaw.watch').at(-1)).toEqual({ sessionKey: 's', after: 1 })
    expect(started).toEqual([0])
    mock.event('sgclaw.event', state(tell))
    expect(seqs()).toEqual([1, 2])
  })

  test('passes on pieces of replies, which have no number', async () => {
    await mock.accept()
    watch()
    await flush()
    mock.event('sgclaw.event', teller()('delta', 'r', { step: 1, attempt: 1, text: 'x' }))
    expect(seen).toHaveLength(1)
  })

  test('tells nothing any more once it has ended, not even where it begins', async () => {
    await mock.accept()
    watch()()
    await flush()
    expect(mock.of('sgclaw.watch')).toHaveLength(1)
    expect(started).toEqual([])
  })

  test('ends when nobody watches', async () => {
    await mock.accept()
    const stops = [watch(), watch()]
    await flush()
    stops[0]!()
    expect(mock.of('sgclaw.unwatch')).toEqual([])
    stops[1]!()
    expect(mock.of('sgclaw.unwatch')).toEqual([{ sessionKey: 's' }])
    mock.event('sgclaw.event', state(teller()))
    expect(seen).toEqual([])
  })
})

describe('requests', () => {
  const question = { id: 'q', step: 1, action: 'click', ask: {}, digest: 'd', since: '' }

  test('that can be repeated survive a lost connection', async () => {
    mock.silent.add('sgclaw.send')
    await mock.accept()
    const sent = backend.send({ session: 's', text: 'do it', id: 'key', mode: 'steer' })
    await flush()
    mock.drop()
    mock.silent.clear()
    mock.answers['sgclaw.send'] = (p) => ({ runId: p.idempotencyKey, sessionKey: 's', known: true })
    await vi.advanceTimersByTimeAsync(1_000)
    await mock.accept()
    expect(await sent).toEqual({ runId: 'key', session: 's' })
    const asked = { sessionKey: 's', text: 'do it', idempotencyKey: 'key', mode: 'steer' }
    expect(mock.of('sgclaw.send')).toEqual([asked, asked])
  })

  test('wait for the connection, but not for ever', async () => {
    const sent = backend.send({ session: 's', text: 'do it', id: 'key' }).catch((err: unknown) => err)
    await vi.advanceTimersByTimeAsync(121_000)
    expect(await sent).toMatchObject({ code: 'NOT_CONNECTED' })
  })

  test('fail with the code of the details', async () => {
    mock.answers['sgclaw.confirmations.answer'] = () => { throw new Refused('INVALID_REQUEST', 'ALREADY_DECIDED') }
    await mock.accept()
    await expect(backend.answer('r', question, { approved: true })).rejects.toMatchObject({ code: 'ALREADY_DECIDED' })
  })

  test('answer with what was shown', async () => {
    mock.answers['sgclaw.confirmations.answer'] = () => ({})
    await mock.accept()
    await backend.answer('r', question, { approved: true, forRun: true })
    await backend.answer('r', question, { approved: false, forRun: true, note: 'no' })
    expect(mock.of('sgclaw.confirmations.answer')).toEqual([
      { runId: 'r', confirmId: 'q', digest: 'd', approved: true, scope: 'run' },
      { runId: 'r', confirmId: 'q', digest: 'd', approved: false, note: 'no' },
    ])
  })

  test('leave out what was not asked for', async () => {
    mock.answers['sgclaw.runs.list'] = () => ({ runs: [], hasMore: false })
    await mock.accept()
    await backend.records.runs({ search: '', status: '', before: undefined, limit: 5 })
    expect(mock.of('sgclaw.runs.list')).toEqual([{ limit: 5 }])
  })
})
