// What happens in a session, as the gateway tells it: internal/agent/event.go
// is the source. Names of fields are those on the wire.

export type Status =
  | 'queued'
  | 'thinking'
  | 'acting'
  | 'waiting_confirm'
  | 'browser_offline'
  | 'cooling'
  | 'done'
  | 'failed'
  | 'refused'
  | 'aborted'

const finalStatuses: readonly string[] = ['done', 'failed', 'refused', 'aborted']

/** Whether a run in this state will not change any more, short of a rewind. */
export function isFinal(status: string): boolean {
  return finalStatuses.includes(status)
}

export type Outcome = 'done' | 'failed' | 'unknown' | 'confirm' | 'limited' | 'refused' | 'skipped'

export type Mode = 'queue' | 'steer' | 'interrupt'

export interface Call {
  id: string
  action: string
  params?: unknown
  page_id?: string
  fault?: string
}

export interface Tokens {
  prompt_tokens: number
  completion_tokens: number
  total_tokens: number
}

export interface Page {
  id?: string
  url?: string
  domain?: string
  title?: string
}

export interface Subject {
  role?: string
  name?: string
  context?: string
  url?: string
  domain?: string
  rule?: string
  prompt?: { zh?: string; en?: string }
  picture?: string
}

/** A question to a person. */
export interface Confirmation {
  id: string
  step: number
  action: string
  params?: unknown
  ask: Subject
  digest: string
  since: string
  until?: string
}

export interface Answer {
  confirm_id?: string
  approved: boolean
  by?: string
  note?: string
  scope?: string
}

export interface TaskResult {
  run_id: string
  status: Status
  success: boolean
  reason?: string
  summary: string
  token_usage: Tokens
  models?: Record<string, Tokens>
  duration_ms: number
}

interface Payloads {
  accepted: { task: string; browser: string; mode?: Mode }
  state: { status: Status; detail?: string; rewound?: number }
  thought: { step: number; model?: string; text?: string; calls?: Call[]; usage: Tokens; took_ms: number; attempt?: number }
  delta: { step: number; attempt: number; text: string }
  step: { step: number; call: Call; outcome: Outcome; code?: string; observation?: string; page?: Page; duration_ms: number }
  confirm_required: Confirmation
  confirmed: Answer
  done: TaskResult
  instructed: { id: string; step: number; text: string; by?: string }
  entry: { id: string; role: string; label?: string; text: string; by?: string }
  session: { what: string; by?: string }
}

export type Kind = keyof Payloads

/**
 * An event of a session. Events that are kept have a seq that grows by one;
 * pieces of a reply being written (delta) have none.
 */
export type AgentEvent = {
  [K in Kind]: { session: string; seq?: number; run_id: string; kind: K; at: string; data: Payloads[K] }
}[Kind]

export const noTokens: Tokens = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }

export function addTokens(a: Tokens, b: Tokens): Tokens {
  return {
    prompt_tokens: a.prompt_tokens + b.prompt_tokens,
    completion_tokens: a.completion_tokens + b.completion_tokens,
    total_tokens: a.total_tokens + b.total_tokens,
  }
}
