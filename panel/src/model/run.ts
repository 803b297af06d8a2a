// Where a run stands, told from its events. Everything here is pure: a state
// is never changed, a new one is made.

import { addTokens, isFinal, noTokens } from './event'
import type { AgentEvent, Answer, Call, Confirmation, Outcome, Page, Status, Tokens } from './event'

/** An action that the model asked for, and what came of it. */
export interface Action {
  /** Of the call; empty if the action is known from a record without it. */
  id: string
  action: string
  params?: unknown
  pageId?: string
  fault?: string
  /** The name of the element, where a person was asked about it. */
  name?: string
  outcome?: Outcome
  code?: string
  observation?: string
  page?: Page
  durationMs?: number
  at?: string
  hasImage?: boolean
  /** What a person said when asked about it. */
  answer?: Answer
}

/** One reply of the model and the actions of it. */
export interface Step {
  num: number
  thinking: string
  model?: string
  tokens?: Tokens
  tookMs?: number
  at?: string
  actions: Action[]
}

/** What a person added while the run was under way. */
export interface Addition {
  /** The id of its message. */
  id: string
  text: string
  at: string
  /** The last step when it came. */
  afterStep: number
  by?: string
}

/** A reply while it is being written. */
export interface Draft {
  step: number
  attempt: number
  text: string
}

export interface RunState {
  id: string
  session: string
  task: string
  browser: string
  agent?: string
  status: Status
  detail: string
  reason: string
  summary: string
  createdAt?: string
  startedAt?: string
  endedAt?: string
  /** When it entered its status. */
  statusAt?: string
  durationMs?: number
  steps: Step[]
  additions: Addition[]
  draft?: Draft
  /** The question that waits for a person. */
  question?: Confirmation
  tokens: Tokens
  models: Record<string, Tokens>
  cost?: Cost
  maxSteps?: number
  /** Whether all of it is known: from its first event on, or from the record. */
  whole: boolean
  /** The run that this message was added to. */
  into?: string
  /** The step that a rewind goes on from, until it is known what stays of it. */
  aside?: Step
}

export interface Cost {
  amount: number
  currency: string
}

export function emptyRun(id: string, session: string): RunState {
  return {
    id, session, task: '', browser: '', status: 'queued', detail: '', reason: '', summary: '',
    steps: [], additions: [], tokens: noTokens, models: {}, whole: false,
  }
}

/** The run after an event of it. Told again, an event changes nothing. */
export function reduceRun(run: RunState, e: AgentEvent): RunState {
  switch (e.kind) {
    case 'accepted':
      return {
        ...run, whole: true, task: e.data.task || run.task, browser: run.browser || e.data.browser, createdAt: e.at,
        statusAt: run.statusAt ?? e.at,
      }
    case 'state':
      return onState(run, e)
    case 'delta':
      return onDelta(run, e.data)
    case 'thought':
      return onThought(run, e)
    case 'step':
      return onStep(run, e)
    case 'confirm_required':
      return { ...enter(run, 'waiting_confirm', e.at), question: e.data, draft: undefined, steps: named(run.steps, e.data) }
    case 'confirmed':
      return onConfirmed(run, e.data, e.at)
    case 'instructed': {
      const { id, text, step, by } = e.data
      return { ...run, additions: [...run.additions.filter((a) => a.id !== id), { id, text, at: e.at, afterStep: step, by }] }
    }
    case 'done':
      return {
        ...enter(run, e.data.status, e.at), reason: e.data.reason ?? '', summary: e.data.summary, detail: '',
        tokens: e.data.token_usage ?? run.tokens, models: e.data.models ?? run.models, durationMs: e.data.duration_ms,
        endedAt: e.at, question: undefined, draft: undefined,
      }
    default:
      return run
  }
}

function enter(run: RunState, status: Status, at: string, detail = ''): RunState {
  if (run.status === status && run.detail === detail) return run
  return { ...run, status, detail, statusAt: at }
}

type EventOf<K extends AgentEvent['kind']> = Extract<AgentEvent, { kind: K }>

function onState(run: RunState, e: EventOf<'state'>): RunState {
  const { status, detail = '', rewound } = e.data
  let next = run
  if (rewound !== undefined) {
    next = {
      ...run,
      steps: run.steps.filter((s) => s.num < rewound),
      aside: run.steps.find((s) => s.num === rewound),
      additions: run.additions.filter((a) => a.afterStep < rewound),
      question: undefined, draft: undefined,
    }
  }
  if (rewound !== undefined || (isFinal(run.status) && !isFinal(status))) {
    // It goes on, so what it ended with is no more.
    next = { ...next, reason: '', summary: '', endedAt: undefined, durationMs: undefined }
  }
  const question = status === 'waiting_confirm' ? next.question : undefined
  // A rewind is told with the status that the run had before.
  next = enter(next, rewound !== undefined && isFinal(status) ? 'thinking' : status, e.at, rewound === undefined ? detail : '')
  return { ...next, question, startedAt: next.startedAt ?? (status === 'queued' ? undefined : e.at) }
}

function onDelta(run: RunState, d: { step: number; attempt: number; text: string }): RunState {
  const last = run.steps.at(-1)
  if (isFinal(run.status) || (last && d.step <= last.num)) return run
  const old = run.draft
  if (old && (d.step < old.step || (d.step === old.step && d.attempt < old.attempt))) return run
  const same = old && old.step === d.step && old.attempt === d.attempt
  return { ...run, draft: { step: d.step, attempt: d.attempt, text: same ? old.text + d.text : d.text } }
}

function onThought(run: RunState, e: EventOf<'thought'>): RunState {
  const d = e.data
  const calls = d.calls ?? []
  const old = run.steps.find((s) => s.num === d.step)
  const known = old !== undefined && sameCalls(old, calls) && (old.thinking === (d.text ?? '') || old.thinking === '')
  const step: Step = {
    num: d.step, thinking: d.text ?? '', model: d.model, tokens: d.usage, tookMs: d.took_ms, at: e.at,
    actions: calls.map((c, i) => (known ? { ...old.actions[i], ...fromCall(c) } : fromCall(c))),
  }
  const counted = known && (old.tokens !== undefined || run.whole)
  const model = d.model ?? ''
  const next: RunState = {
    ...run,
    steps: put(run.steps, step),
    aside: undefined,
    draft: run.draft && run.draft.step <= d.step ? undefined : run.draft,
    tokens: counted ? run.tokens : addTokens(run.tokens, d.usage ?? noTokens),
    models: counted ? run.models : { ...run.models, [model]: addTokens(run.models[model] ?? noTokens, d.usage ?? noTokens) },
  }
  if (isFinal(run.status)) return next
  return enter(next, calls.length > 0 && !calls.every((_, i) => step.actions[i]?.outcome) ? 'acting' : 'thinking', e.at)
}

function fromCall(c: Call): Action {
  return { id: c.id, action: c.action, params: c.params, pageId: c.page_id, fault: c.fault }
}

/** Whether the actions of a step may be these calls. */
function sameCalls(step: Step, calls: Call[]): boolean {
  return step.actions.length === calls.length && step.actions.every((a, i) => (a.id ? a.id === calls[i]?.id : a.action === calls[i]?.action))
}

function put(steps: Step[], step: Step): Step[] {
  const i = steps.findIndex((s) => s.num >= step.num)
  if (i < 0) return [...steps, step]
  return [...steps.slice(0, i), step, ...steps.slice(steps[i]?.num === step.num ? i + 1 : i)]
}

function onStep(run: RunState, e: EventOf<'step'>): RunState {
  const d = e.data
  const aside = run.aside?.num === d.step && run.aside.actions.some((a) => a.id === d.call.id) ? run.aside : undefined
  const old = run.steps.find((s) => s.num === d.step) ?? (aside && before(aside, d.call.id)) ?? { num: d.step, thinking: '', actions: [] }
  const i = placeOf(old, d.call)
  const action: Action = {
    ...old.actions[i], ...fromCall(d.call), outcome: d.outcome, code: d.code, observation: d.observation,
    page: d.page, durationMs: d.duration_ms, at: e.at,
    hasImage: old.actions[i]?.hasImage ?? (d.call.action === 'pageScreenshot' && d.outcome === 'done'),
  }
  const actions = i < old.actions.length ? old.actions.map((a, n) => (n === i ? action : a)) : [...old.actions, action]
  const next = { ...run, steps: put(run.steps, { ...old, actions }), aside: undefined }
  if (isFinal(run.status)) return next
  return enter(next, actions.every((a) => a.outcome) ? 'thinking' : 'acting', e.at)
}

/** A step as it was before one of its calls was carried out. */
function before(step: Step, callId: string): Step {
  const i = step.actions.findIndex((a) => a.id === callId)
  return { ...step, actions: step.actions.map((a, n) => (n < i ? a : { id: a.id, action: a.action, params: a.params, pageId: a.pageId, fault: a.fault })) }
}

/** Where a call is among the actions of a step; their number if nowhere. */
function placeOf(step: Step, call: Call): number {
  const byId = step.actions.findIndex((a) => a.id === call.id)
  if (byId >= 0) return byId
  // What is known from the record has no ids.
  const waiting = step.actions.findIndex((a) => !a.id && !a.outcome && a.action === call.action)
  if (waiting >= 0) return waiting
  const params = JSON.stringify(call.params)
  const told = step.actions.findIndex((a) => !a.id && a.action === call.action && JSON.stringify(a.params) === params)
  return told >= 0 ? told : step.actions.length
}

/** The steps, with the action that a person is asked about called by its element's name. */
function named(steps: Step[], q: Confirmation): Step[] {
  const step = steps.find((s) => s.num === q.step)
  const i = step ? step.actions.findIndex((a) => !a.outcome && a.action === q.action) : -1
  if (!step || i < 0 || !q.ask.name) return steps
  return put(steps, { ...step, actions: step.actions.map((a, n) => (n === i ? { ...a, name: q.ask.name } : a)) })
}

function onConfirmed(run: RunState, a: Answer, at: string): RunState {
  const q = run.question
  if (q && a.confirm_id && q.id !== a.confirm_id) return run
  const step = q ? run.steps.find((s) => s.num === q.step) : run.steps.at(-1)
  const i = step ? step.actions.findIndex((x) => !x.outcome && (!q || x.action === q.action)) : -1
  const steps = step && i >= 0
    ? put(run.steps, { ...step, actions: step.actions.map((x, n) => (n === i ? { ...x, answer: a } : x)) })
    : run.steps
  const next = { ...run, steps, question: undefined }
  return isFinal(run.status) ? next : enter(next, 'acting', at)
}
