// A session as its watcher sees it: its runs, its queue and its log, told
// from events. Pure, like run.ts.

import { isFinal } from './event'
import type { AgentEvent, Outcome, Status } from './event'
import { emptyRun, reduceRun } from './run'
import type { RunState } from './run'

/** What a line of the log says; texts for people are made where it is shown. */
export type LogText =
  | { what: 'accepted'; task: string }
  | { what: 'state'; status: Status; detail: string }
  | { what: 'rewound'; step: number }
  | { what: 'thought'; step: number; text: string }
  | { what: 'action'; step: number; action: string; subject: string; outcome: Outcome; code: string }
  | { what: 'ask'; action: string; subject: string; domain: string }
  | { what: 'answer'; approved: boolean; by: string; note: string; scope: string }
  | { what: 'done'; status: Status; reason: string; summary: string }
  | { what: 'added'; text: string }
  | { what: 'entry'; role: string; label: string; text: string; by: string }
  | { what: 'session'; change: string; by: string }
  | { what: 'text'; text: string }

export type Level = 'info' | 'ok' | 'warn' | 'error'

export interface LogLine {
  /** Unique in the session. */
  id: string
  at: string
  level: Level
  run: string
  text: LogText
}

export interface SessionState {
  key: string
  /** The number of the last event, 0 before the first. */
  seq: number
  runs: Record<string, RunState>
  /** Ids of runs as they were accepted. */
  order: string[]
  log: LogLine[]
}

/** How many lines of log are kept. */
export const maxLog = 400

export function emptySession(key: string, seq = 0): SessionState {
  return { key, seq, runs: {}, order: [], log: [] }
}

/**
 * The session after an event. An event that was told before changes nothing.
 */
export function reduceSession(s: SessionState, e: AgentEvent): SessionState {
  if (e.session !== s.key) return s
  if (e.seq) {
    if (e.seq <= s.seq) return s
    s = { ...s, seq: e.seq }
  }
  const line = logLine(s, e)
  if (line) s = { ...s, log: [...s.log.slice(-(maxLog - 1)), line] }
  if (e.kind === 'session') {
    // Its history begins anew; what is under way goes on.
    return e.data.what === 'reset' || e.data.what === 'deleted' ? forget(s, line) : s
  }
  if (e.kind === 'entry' || !e.run_id) return s
  return reduceRuns(s, e)
}

function reduceRuns(s: SessionState, e: AgentEvent): SessionState {
  const old = s.runs[e.run_id]
  if (!old && e.kind === 'delta') return s
  const run = reduceRun(old ?? emptyRun(e.run_id, s.key), e)
  let runs = { ...s.runs, [run.id]: run }
  let order = s.order
  const target = currentRun(s, run.id)
  if (!old) {
    // What interrupts comes next, before what waits.
    const first = e.kind === 'accepted' && e.data.mode === 'interrupt' && target
    const at = first ? order.indexOf(target.id) + 1 : order.length
    order = [...order.slice(0, at), run.id, ...order.slice(at)]
  }
  if (target && e.kind === 'accepted' && e.data.mode === 'steer' && (!run.browser || run.browser === target.browser)) {
    runs = { ...runs, [target.id]: withAddition(target, run, e.at), [run.id]: { ...run, into: target.id } }
  } else if (target && e.kind === 'done' && run.reason === 'STEERED' && !run.into) {
    runs = { ...runs, [target.id]: withAddition(target, run, e.at), [run.id]: { ...run, into: target.id } }
  } else if (run.into && e.kind === 'state') {
    // The run that it was meant for ended without having read it.
    const missed = runs[run.into]
    runs = { ...runs, [run.id]: { ...run, into: undefined } }
    if (missed) runs[missed.id] = { ...missed, additions: missed.additions.filter((a) => a.id !== run.id) }
  }
  return { ...s, runs, order }
}

function withAddition(target: RunState, message: RunState, at: string): RunState {
  if (target.additions.some((a) => a.id === message.id)) return target
  const addition = { id: message.id, text: message.task, at, afterStep: target.steps.at(-1)?.num ?? 0 }
  return { ...target, additions: [...target.additions, addition] }
}

function forget(s: SessionState, line: LogLine | undefined): SessionState {
  const order = s.order.filter((id) => !isFinal(s.runs[id]?.status ?? 'done'))
  const runs = Object.fromEntries(order.map((id) => [id, s.runs[id]!]))
  return { ...s, order, runs, log: line ? [line] : [] }
}

/** Takes in a run as the record has it, where its events are not known. */
export function withRecord(s: SessionState, run: RunState): SessionState {
  const old = s.runs[run.id]
  if (old && (old.whole || !run.whole)) {
    const told = { ...old, agent: old.agent ?? run.agent, maxSteps: old.maxSteps ?? run.maxSteps, cost: run.cost ?? old.cost }
    return { ...s, runs: { ...s.runs, [run.id]: told } }
  }
  const order = s.order.includes(run.id)
    ? s.order
    : [...s.order, run.id].sort((a, b) => time(a === run.id ? run : s.runs[a]) - time(b === run.id ? run : s.runs[b]))
  return { ...s, order, runs: { ...s.runs, [run.id]: old ? { ...run, draft: old.draft, additions: old.additions } : run } }
}

function time(r: RunState | undefined): number {
  return r?.createdAt ? Date.parse(r.createdAt) : 0
}

/** The run under way, if there is one. */
export function currentRun(s: SessionState, besides = ''): RunState | undefined {
  return s.order.map((id) => s.runs[id]!).find((r) => r.id !== besides && !isFinal(r.status) && r.status !== 'queued')
}

/** Whether a message was added to a run, and is none itself. */
function isAddition(s: SessionState, r: RunState): boolean {
  if (r.reason === 'STEERED') return true
  const target = r.into ? s.runs[r.into] : undefined
  return target !== undefined && !isFinal(target.status)
}

/** The run to show: the one under way, else the next, else the last that ended. */
export function shownRun(s: SessionState): RunState | undefined {
  const runs = s.order.map((id) => s.runs[id]!).filter((r) => !isAddition(s, r))
  return currentRun(s) ?? runs.find((r) => r.status === 'queued') ?? runs.at(-1)
}

/** The runs that wait for their turn, in order. */
export function queuedRuns(s: SessionState): RunState[] {
  const shown = shownRun(s)
  return s.order.map((id) => s.runs[id]!).filter((r) => r.status === 'queued' && r !== shown && !isAddition(s, r))
}

const paramsThatTell = ['url', 'selector', 'root_selector', 'key', 'domain', 'page_id']
const maxSubject = 120

/**
 * What an action is done to: the parameter that says most, or, where that is
 * no more than a reference into a snapshot, the element's name, which is known
 * or the observation begins with.
 */
export function subjectOf(params: unknown, observation = '', name = ''): string {
  if (typeof params !== 'object' || params === null) return ''
  const values = params as Record<string, unknown>
  for (const key of paramsThatTell) {
    const v = values[key]
    if (typeof v !== 'string' || !v) continue
    const called = v.startsWith('[ref=') ? name || /"(.+?)"/.exec(observation.split('\n', 1)[0] ?? '')?.[1] : undefined
    const s = called ? `“${called}”` : v
    return s.length > maxSubject ? s.slice(0, maxSubject - 1) + '…' : s
  }
  return ''
}

function logLine(s: SessionState, e: AgentEvent): LogLine | undefined {
  const line = (level: Level, text: LogText): LogLine => ({ id: String(e.seq ?? `${e.run_id}/${s.log.length}`), at: e.at, level, run: e.run_id, text })
  switch (e.kind) {
    case 'accepted':
      if (e.data.mode === 'steer' && currentRun(s)) return line('info', { what: 'added', text: e.data.task })
      return line('info', { what: 'accepted', task: e.data.task })
    case 'state':
      if (e.data.rewound !== undefined) return line('warn', { what: 'rewound', step: e.data.rewound })
      if (e.data.status === 'thinking' && !e.data.detail && s.runs[e.run_id]?.startedAt) return undefined
      return line(e.data.status === 'browser_offline' || e.data.status === 'cooling' ? 'warn' : 'info', {
        what: 'state', status: e.data.status, detail: e.data.detail ?? '',
      })
    case 'thought':
      // The last one is what the run ends with.
      return e.data.text && e.data.calls?.length ? line('info', { what: 'thought', step: e.data.step, text: e.data.text }) : undefined
    case 'step':
      return line(levelOf(e.data.outcome), {
        what: 'action', step: e.data.step, action: e.data.call.action, subject: subjectOf(e.data.call.params, e.data.observation, nameOf(s.runs[e.run_id], e.data.step, e.data.call.id)),
        outcome: e.data.outcome, code: e.data.code ?? '',
      })
    case 'confirm_required':
      return line('warn', { what: 'ask', action: e.data.action, subject: e.data.ask.name || subjectOf(e.data.params), domain: e.data.ask.domain ?? '' })
    case 'confirmed':
      return line(e.data.approved ? 'ok' : 'warn', {
        what: 'answer', approved: e.data.approved, by: e.data.by ?? '', note: e.data.note ?? '', scope: e.data.scope ?? '',
      })
    case 'instructed':
      if (s.runs[e.run_id]?.additions.some((a) => a.id === e.data.id)) return undefined
      return line('info', { what: 'added', text: e.data.text })
    case 'done':
      if (e.data.reason === 'STEERED') return s.runs[e.run_id]?.into ? undefined : line('info', { what: 'added', text: s.runs[e.run_id]?.task ?? '' })
      return line(e.data.success ? 'ok' : e.data.status === 'aborted' ? 'warn' : 'error', {
        what: 'done', status: e.data.status, reason: e.data.reason ?? '', summary: e.data.summary,
      })
    case 'entry':
      return line('info', { what: 'entry', role: e.data.role, label: e.data.label ?? '', text: e.data.text, by: e.data.by ?? '' })
    case 'session':
      return line('info', { what: 'session', change: e.data.what, by: e.data.by ?? '' })
    case 'delta':
      return undefined
  }
}

function nameOf(run: RunState | undefined, step: number, callId: string): string | undefined {
  return run?.steps.find((s) => s.num === step)?.actions.find((a) => a.id === callId)?.name
}

function levelOf(o: Outcome): Level {
  if (o === 'done') return 'ok'
  return o === 'failed' ? 'error' : 'warn'
}
