// What the panel needs of whoever is behind it. There are two: a gateway
// (gateway.ts) and a browser host (bridge.ts). A host has less, so the rest
// is in Records, which only a gateway has.

import type { AgentEvent, Confirmation, Mode, Outcome, Status } from '../model/event'
import type { Cost } from '../model/run'

export type Role = 'viewer' | 'user' | 'approver' | 'operator'

const roles: readonly Role[] = ['viewer', 'user', 'approver', 'operator']

/** Whether somebody of a role may do what takes the role needed. */
export function covers(role: Role | undefined, needed: Role): boolean {
  return role !== undefined && roles.indexOf(role) >= roles.indexOf(needed)
}

/** How the connection stands. */
export type Link =
  | { state: 'connecting' }
  /** Nobody said who is asking: a token is needed. */
  | { state: 'token' }
  | { state: 'open'; epoch: number }
  /** It was lost, and is tried again at a time (ms since 1970). */
  | { state: 'lost'; since: number; retryAt: number; everOpen: boolean }
  /** The other side does not want this client; trying again is no use. */
  | { state: 'refused'; code: string; message: string }
  | { state: 'closed' }

export interface Who {
  name: string
  role: Role
  version: string
}

/** States of a browser host's agent (seed 001 §4.1). */
export type HostState = 'stopped' | 'starting' | 'running' | 'error'

export interface HostLine {
  time: string
  message: string
  level: string
}

export interface Outgoing {
  session: string
  text: string
  /** The idempotency key; it becomes the id of the run. */
  id: string
  browser?: string
  mode?: Mode
}

export interface Reply {
  approved: boolean
  note?: string
  /** With a yes: for the rest of the run. */
  forRun?: boolean
}

/** An error that the other side answered with. */
export class RequestError extends Error {
  override name = 'RequestError'
  constructor(readonly code: string, message: string, readonly retryable = false) {
    super(message)
  }
}

/** The connection ended before the answer came. */
export class LostError extends Error {
  override name = 'LostError'
}

export interface Backend {
  readonly home: 'gateway' | 'bridge'
  /** What only a gateway has. */
  readonly records?: Records
  /** What only a browser host has. */
  readonly host?: Host
  /** The session to begin with. */
  readonly mainSession: string

  open(): void
  close(): void
  /** Tries to connect at once, if that would be tried later. */
  hurry(): void
  /** Tells how the connection stands, now and from now on. */
  onLink(tell: (link: Link) => void): () => void
  whoami(): Promise<Who>

  /**
   * Tells the newest events of a session and then those to come, in order
   * and each once, until the function returned is called. started is told the
   * number of the event before the first one that is told, and the session's
   * key as it is written. With onlyNew, nothing of the past is told.
   */
  watch(session: string, started: (seq: number, key: string) => void, tell: (e: AgentEvent) => void, onlyNew?: boolean): () => void
  send(m: Outgoing): Promise<{ runId: string; session: string }>
  abort(runId: string): Promise<void>
  answer(runId: string, question: Confirmation, reply: Reply): Promise<void>
}

/** Starting and stopping the agent itself. */
export interface Host {
  start(): Promise<void>
  stop(): Promise<void>
  onState(tell: (state: HostState) => void): () => void
  onLine(tell: (line: HostLine) => void): () => void
}

export interface Usage {
  promptTokens: number
  completionTokens: number
  totalTokens: number
}

export interface RunInfo {
  runId: string
  sessionKey: string
  agent: string
  browser: string
  task: string
  status: Status
  reason: string
  summary: string
  success: boolean
  steps: number
  usage: Usage
  models?: Record<string, Usage>
  cost?: Cost
  origin?: { kind?: string; user?: string; channel?: string }
  createdAt: string
  startedAt?: string
  endedAt?: string
  maxSteps?: number
}

export interface StepInfo {
  step: number
  index: number
  thinking: string
  action?: string
  params?: unknown
  outcome?: Outcome
  code?: string
  observation?: string
  pageUrl?: string
  durationMs?: number
  hasImage?: boolean
}

export interface RunDetail {
  run: RunInfo
  steps: StepInfo[]
  open?: Confirmation
  queuePosition?: number
}

export interface Picture {
  mime: string
  /** Base64. */
  data: string
}

export interface SessionRow {
  key: string
  label?: string
  agent?: string
  updatedAt?: number
  status?: string
  hasActiveRun?: boolean
  lastMessage?: string
  mode?: Mode
  model?: string
}

export interface BrowserInfo {
  id: string
  online: boolean
  seenAt?: string
  runs: string[]
}

export interface Health {
  temporal: { ok: boolean; error?: string }
  database: { ok: boolean }
  worker: { ok: boolean }
  model: { configured: boolean; name?: string }
  browsers: { online: number; total: number }
}

export interface UsageRow {
  day: string
  agent: string
  model: string
  browser: string
  runs: number
  succeeded: number
  failed: number
  aborted: number
  usage: Usage
  durationMs: number
  steps: number
}

export interface Asked {
  runId: string
  sessionKey: string
  browser: string
  task: string
  confirmation: Confirmation
}

export interface RunQuery {
  sessionKey?: string
  browser?: string
  status?: string
  search?: string
  before?: string
  limit?: number
}

export interface Records {
  runs(q: RunQuery): Promise<{ runs: RunInfo[]; hasMore: boolean }>
  run(runId: string): Promise<RunDetail>
  image(runId: string, step: number, index: number): Promise<Picture>
  steer(runId: string, text: string, id: string): Promise<void>
  rewind(runId: string, step: number, text: string): Promise<void>
  move(runId: string, browser: string): Promise<void>
  confirmations(session?: string): Promise<Asked[]>
  picture(runId: string, confirmId: string): Promise<Picture>
  queue(session: string): Promise<{ running?: string; queued: { runId: string; task: string }[] }>
  browsers(): Promise<BrowserInfo[]>
  health(): Promise<Health>
  usage(from: string, to: string, timezone: string): Promise<UsageRow[]>
  sessions(search: string, offset: number): Promise<{ sessions: SessionRow[]; hasMore: boolean }>
  renameSession(key: string, label: string): Promise<void>
  resetSession(key: string): Promise<void>
  deleteSession(key: string): Promise<void>
}
