import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { click, teller, tokens } from '../../test/events'
import type { RunDetail } from '../backend/backend'
import type { AgentEvent } from './event'
import { fromDetail, fromInfo } from './record'
import { currentRun, emptySession, queuedRuns, reduceSession, shownRun, subjectOf, withRecord } from './session'
import type { SessionState } from './session'

function play(events: AgentEvent[], from: SessionState = emptySession('s')): SessionState {
  return events.reduce(reduceSession, from)
}

const recorded = JSON.parse(readFileSync('test/recorded/leave.json', 'utf8')) as AgentEvent[]
const recordedRun = recorded[0]!.run_id

describe('a recorded run', () => {
  const end = play(recorded, emptySession('agent:main:main'))

  test('ends as it did', () => {
    const run = end.runs[recordedRun]!
    expect(run.status).toBe('done')
    expect(run.summary).toMatch(/^任务完成/)
    expect(run.tokens.total_tokens).toBe(93122)
    expect(run.durationMs).toBe(17008)
    expect(run.steps.map((s) => s.num)).toEqual(Array.from({ length: 21 }, (_, i) => i + 1))
    expect(run.steps.flatMap((s) => s.actions).every((a) => a.outcome === 'done')).toBe(true)
    expect(run.steps[3]!.actions[0]!.answer).toMatchObject({ approved: true, by: 'operator', scope: 'run' })
    expect(run.question).toBeUndefined()
  })

  test('has counted its tokens itself before it was told', () => {
    const before = play(recorded.slice(0, -1), emptySession('agent:main:main')).runs[recordedRun]!
    expect(before.tokens.total_tokens).toBe(93122)
    expect(before.models.scripted?.total_tokens).toBe(93122)
  })

  test('is the same when events are told twice, or again from anywhere', () => {
    expect(play(recorded.flatMap((e) => [e, e]), emptySession('agent:main:main'))).toEqual(end)
    for (const again of [0, 10, 30]) {
      expect(play([...recorded.slice(0, 40), ...recorded.slice(again)], emptySession('agent:main:main'))).toEqual(end)
    }
  })

  test('waits for a person in between', () => {
    const asked = recorded.findIndex((e) => e.kind === 'confirm_required')
    const run = play(recorded.slice(0, asked + 1), emptySession('agent:main:main')).runs[recordedRun]!
    expect(run.status).toBe('waiting_confirm')
    expect(run.question?.ask.name).toBe('批准')
    expect(run.steps.at(-1)!.actions[0]!.name).toBe('批准')
    const answered = play(recorded.slice(0, asked + 2), emptySession('agent:main:main')).runs[recordedRun]!
    expect(answered.status).toBe('acting')
    expect(answered.question).toBeUndefined()
  })

  test('names in its log what it clicked', () => {
    const texts = end.log.map((l) => l.text)
    expect(texts).toContainEqual({ what: 'action', step: 4, action: 'click', subject: '“批准”', outcome: 'done', code: '' })
    expect(texts.at(-1)).toMatchObject({ what: 'done', status: 'done' })
  })
})

describe('pieces of a reply', () => {
  const tell = teller()
  const begin = [tell('accepted', 'r', { task: 't', browser: 'b' }), tell('state', 'r', { status: 'thinking' })]
  const delta = (step: number, attempt: number, text: string) => tell('delta', 'r', { step, attempt, text })
  const draft = (...events: AgentEvent[]) => play([...begin, ...events]).runs.r!.draft

  test('are put together', () => expect(draft(delta(1, 1, 'ab'), delta(1, 1, 'c'))).toEqual({ step: 1, attempt: 1, text: 'abc' }))
  test('of an earlier attempt are void', () => expect(draft(delta(1, 1, 'ab'), delta(1, 2, 'x'), delta(1, 1, 'c'), delta(1, 2, 'y'))?.text).toBe('xy'))
  test('of an earlier step are void', () => expect(draft(delta(2, 1, 'x'), delta(1, 3, 'c'))?.text).toBe('x'))
  test('give way to the whole reply, and do not come back', () => {
    const thought = tell('thought', 'r', { step: 1, text: 'abc', calls: [click('c1')], usage: tokens(5), took_ms: 1 })
    expect(draft(delta(1, 1, 'ab'), thought)).toBeUndefined()
    expect(draft(thought, delta(1, 1, 'ab'))).toBeUndefined()
    expect(draft(thought, delta(2, 1, 'next'))?.text).toBe('next')
  })
  test('of a run that has ended, or is not known, say nothing', () => {
    const done = tell('done', 'r', { run_id: 'r', status: 'done', success: true, summary: '', token_usage: tokens(1), duration_ms: 1 })
    expect(draft(done, delta(9, 1, 'x'))).toBeUndefined()
    expect(play([delta(1, 1, 'x')]).runs).toEqual({})
  })
})

describe('a rewind', () => {
  function told() {
    const tell = teller()
    const thought = (step: number, text: string, ...ids: string[]) => tell('thought', 'r', { step, text, calls: ids.map(click), usage: tokens(10), took_ms: 5 })
    const step = (n: number, id: string) => tell('step', 'r', { step: n, call: click(id), outcome: 'done', observation: 'done', duration_ms: 3 })
    const before = [
      tell('accepted', 'r', { task: 't', browser: 'b' }), tell('state', 'r', { status: 'thinking' }),
      thought(1, 'one', 'a'), step(1, 'a'), thought(2, 'two', 'b', 'c'), step(2, 'b'), step(2, 'c'), thought(3, 'three', 'd'),
      tell('confirm_required', 'r', { id: 'q', step: 3, action: 'click', ask: {}, digest: 'x', since: '' }),
    ]
    return { tell, thought, step, before }
  }

  test('sets aside what came after', () => {
    const { tell, thought, before } = told()
    const rewound = play([...before, tell('state', 'r', { status: 'waiting_confirm', detail: 'rewound to step 2', rewound: 2 })])
    expect(rewound.runs.r!.steps.map((s) => s.thinking)).toEqual(['one'])
    expect(rewound.runs.r!.question).toBeUndefined()
    const on = play([thought(2, 'two, anew', 'e')], rewound)
    expect(on.runs.r!.steps.map((s) => s.thinking)).toEqual(['one', 'two, anew'])
    expect(on.runs.r!.status).toBe('acting')
    // What was thought in vain was paid for too.
    expect(on.runs.r!.tokens.total_tokens).toBe(40)
  })

  test('into a step keeps what that had done before', () => {
    const { tell, step, before } = told()
    const run = play([...before, tell('state', 'r', { status: 'acting', rewound: 2 }), step(2, 'c')]).runs.r!
    expect(run.steps.map((s) => s.thinking)).toEqual(['one', 'two'])
    expect(run.steps[1]!.actions.map((a) => a.outcome)).toEqual(['done', 'done'])
  })

  test('makes a run go on that had ended', () => {
    const { tell, thought, before } = told()
    const done = tell('done', 'r', { run_id: 'r', status: 'failed', success: false, reason: 'GAVE_UP', summary: 'no', token_usage: tokens(30), duration_ms: 9 })
    const rewound = play([...before, done, tell('state', 'r', { status: 'failed', rewound: 0 })])
    expect(rewound.runs.r).toMatchObject({ status: 'thinking', reason: '', summary: '', steps: [] })
    expect(rewound.runs.r!.endedAt).toBeUndefined()
    const on = play([thought(1, 'one, anew', 'f')], rewound)
    expect(on.runs.r!.status).toBe('acting')
  })
})

describe('messages to a busy session', () => {
  const done = (tell: ReturnType<typeof teller>, run: string, more = {}) =>
    tell('done', run, { run_id: run, status: 'done', success: true, summary: '', token_usage: tokens(1), duration_ms: 1, ...more })

  test('wait in order; one that interrupts comes first', () => {
    const tell = teller()
    const s = play([
      tell('accepted', 'a', { task: 'A', browser: '' }), tell('state', 'a', { status: 'thinking' }),
      tell('accepted', 'b', { task: 'B', browser: '', mode: 'queue' }), tell('accepted', 'c', { task: 'C', browser: '', mode: 'interrupt' }),
    ])
    expect(shownRun(s)?.id).toBe('a')
    expect(queuedRuns(s).map((r) => r.id)).toEqual(['c', 'b'])
  })

  test('that steer are part of the run', () => {
    const tell = teller()
    const s = play([
      tell('accepted', 'a', { task: 'A', browser: 'x' }), tell('state', 'a', { status: 'thinking' }),
      tell('accepted', 'b', { task: 'also B', browser: 'x', mode: 'steer' }),
    ])
    expect(currentRun(s)?.additions.map((a) => a.text)).toEqual(['also B'])
    expect(queuedRuns(s)).toEqual([])
    const after = play([done(tell, 'a'), done(tell, 'b', { reason: 'STEERED' })], s)
    expect(shownRun(after)?.id).toBe('a')
    expect(after.runs.a!.additions).toHaveLength(1)
  })

  test('that steer are told again when the run takes them', () => {
    const tell = teller()
    const s = play([
      tell('accepted', 'a', { task: 'A', browser: '' }), tell('state', 'a', { status: 'thinking' }),
      tell('accepted', 'b', { task: 'also B', browser: '', mode: 'steer' }), tell('instructed', 'a', { id: 'b', step: 3, text: 'also B', by: 'ann' }),
      tell('instructed', 'a', { id: 'x', step: 4, text: 'and C', by: 'ben' }),
    ])
    expect(s.runs.a!.additions.map((a) => [a.id, a.afterStep, a.by])).toEqual([['b', 3, 'ann'], ['x', 4, 'ben']])
    expect(s.log.filter((l) => l.text.what === 'added')).toHaveLength(2)
  })

  test('that steer and came too late run themselves', () => {
    const tell = teller()
    const s = play([
      tell('accepted', 'a', { task: 'A', browser: '' }), tell('state', 'a', { status: 'thinking' }),
      tell('accepted', 'b', { task: 'B', browser: '', mode: 'steer' }), done(tell, 'a'), tell('state', 'b', { status: 'thinking' }),
    ])
    expect(shownRun(s)?.id).toBe('b')
    expect(s.runs.a!.additions).toEqual([])
  })

  test('for another browser are not part of it', () => {
    const tell = teller()
    const s = play([
      tell('accepted', 'a', { task: 'A', browser: 'x' }), tell('state', 'a', { status: 'thinking' }),
      tell('accepted', 'b', { task: 'B', browser: 'y', mode: 'steer' }),
    ])
    expect(queuedRuns(s).map((r) => r.id)).toEqual(['b'])
  })
})

test('a session that was reset forgets what is over', () => {
  const tell = teller()
  const s = play([
    tell('accepted', 'a', { task: 'A', browser: '' }), tell('done', 'a', { run_id: 'a', status: 'done', success: true, summary: '', token_usage: tokens(1), duration_ms: 1 }),
    tell('accepted', 'b', { task: 'B', browser: '' }), tell('state', 'b', { status: 'thinking' }), tell('session', '', { what: 'reset', by: 'ann' }),
  ])
  expect(s.order).toEqual(['b'])
  expect(s.log.map((l) => l.text.what)).toEqual(['session'])
})

test('events of another session are not its own', () => {
  const s = emptySession('s')
  expect(reduceSession(s, teller('other')('accepted', 'a', { task: 'A', browser: '' }))).toBe(s)
})

describe('a run of which only the end is told', () => {
  const detail: RunDetail = {
    run: {
      runId: 'r', sessionKey: 's', agent: 'main', browser: 'b', task: 'T', status: 'acting', reason: '', summary: '', success: false, steps: 2,
      usage: { promptTokens: 18, completionTokens: 2, totalTokens: 20 }, createdAt: '2026-01-01T09:00:00Z', startedAt: '2026-01-01T09:00:01Z', maxSteps: 50,
    },
    steps: [
      { step: 2, index: 0, thinking: 'two', action: 'click', params: { selector: '[ref=b]' }, outcome: 'done' },
      { step: 2, index: 1, thinking: '', action: 'click', params: { selector: '[ref=c]' } },
      { step: 1, index: 0, thinking: 'one', action: 'click', params: { selector: '[ref=a]' }, outcome: 'done' },
    ],
  }

  test('is completed from the record, and goes on', () => {
    const tell = teller()
    const step = tell('step', 'r', { step: 2, call: click('b'), outcome: 'done', duration_ms: 1 })
    let s = withRecord(play([step]), fromDetail(detail))
    expect(s.runs.r).toMatchObject({ task: 'T', whole: true, maxSteps: 50 })
    expect(s.runs.r!.steps.map((x) => [x.num, x.actions.length])).toEqual([[1, 1], [2, 2]])
    s = play([tell('step', 'r', { step: 2, call: click('c'), outcome: 'failed', code: 'ELEMENT_NOT_FOUND', duration_ms: 1 })], s)
    expect(s.runs.r!.steps[1]!.actions.map((a) => a.outcome)).toEqual(['done', 'failed'])
    // Told again, since the record had it already, it is not there twice.
    s = play([tell('step', 'r', { step: 2, call: click('b'), outcome: 'done', duration_ms: 1 })], s)
    expect(s.runs.r!.steps[1]!.actions).toHaveLength(2)
    expect(s.runs.r!.status).toBe('thinking')
  })

  test('a reply that the record had is not paid for twice', () => {
    const tell = teller()
    const thought = tell('thought', 'r', { step: 2, text: 'two', calls: [click('b'), click('c')], usage: tokens(10), took_ms: 1 })
    const s = play([thought], withRecord(emptySession('s'), fromDetail(detail)))
    expect(s.runs.r!.tokens.total_tokens).toBe(20)
    expect(s.runs.r!.steps[1]!.actions.map((a) => a.id)).toEqual(['b', 'c'])
  })

  test('what is known from its events stays', () => {
    const tell = teller()
    const s = play([tell('accepted', 'r', { task: 'T', browser: 'b' }), tell('thought', 'r', { step: 1, text: 'one', calls: [], usage: tokens(3), took_ms: 1 })])
    const after = withRecord(s, fromInfo({ ...detail.run, cost: { amount: 0.02, currency: 'USD' } }))
    expect(after.runs.r!.steps).toHaveLength(1)
    expect(after.runs.r!.cost).toEqual({ amount: 0.02, currency: 'USD' })
  })
})

test('what an action is done to', () => {
  expect(subjectOf({ url: 'http://a/' })).toBe('http://a/')
  expect(subjectOf({ selector: '[ref=e1]' })).toBe('[ref=e1]')
  expect(subjectOf({ selector: '[ref=e1]' }, 'done: click: clicked link "查看"\npage: "x"')).toBe('“查看”')
  expect(subjectOf({ text: 'secret', selector: '#a' })).toBe('#a')
  expect(subjectOf(null)).toBe('')
})
