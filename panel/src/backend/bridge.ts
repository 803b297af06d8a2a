// The panel's end of a browser host, as SuperRPA gives it to its side panel
// (seed 001 §4.1): window.sgFunctionsUI to call, window.sgClawEvents to be
// called. There is no gateway, no record and no session; one task runs at a
// time. What the host says is told on as the events of one session.

import type { AgentEvent, Confirmation, Subject } from '../model/event'
import { isFinal, noTokens } from '../model/event'
import { RequestError } from './backend'
import type { Backend, Host, HostLine, HostState, Link, Outgoing, Reply, Who } from './backend'

interface Response {
  success: boolean
  error?: string
  code?: string
}

export type FunctionsUI = (name: string, params: object, callback: (response: Response) => void) => void

/** What onConfirmRequired is given. The seed has the first three. */
export interface BridgeAction {
  id: string
  type: string
  domain?: string
  params?: unknown
  role?: string
  name?: string
  context?: string
  url?: string
  prompt?: { zh?: string; en?: string }
  /** A picture of the element, a data: URL. */
  picture?: string
  until?: string
}

export interface BridgeResult {
  success: boolean
  summary?: string
  reason?: string
  status?: string
}

interface BridgeEvents {
  onStateChanged(state: HostState): void
  onLogEntry(entry: HostLine): void
  onConfirmRequired(action: BridgeAction): void
  onTaskCompleted(result: BridgeResult): void
}

declare global {
  interface Window {
    sgFunctionsUI?: FunctionsUI
    sgClawEvents?: BridgeEvents
  }
}

const session = 'host'
const answerMs = 30_000

export class BridgeBackend implements Backend {
  readonly home = 'bridge'
  readonly mainSession = session
  readonly host: Host

  private state: HostState = 'stopped'
  private readonly stateListeners = new Set<(s: HostState) => void>()
  private readonly lineListeners = new Set<(l: HostLine) => void>()
  private readonly linkListeners = new Set<(l: Link) => void>()
  private readonly watchers = new Set<(e: AgentEvent) => void>()
  private readonly events: AgentEvent[] = []
  private run = ''
  private asked?: Confirmation
  private count = 0

  constructor(private readonly functions: FunctionsUI) {
    this.host = {
      start: async () => {
        await this.call('sgclaw_start', {})
      },
      stop: async () => {
        await this.call('sgclaw_stop', {})
      },
      onState: (tell) => {
        this.stateListeners.add(tell)
        tell(this.state)
        return () => this.stateListeners.delete(tell)
      },
      onLine: (tell) => {
        this.lineListeners.add(tell)
        return () => this.lineListeners.delete(tell)
      },
    }
  }

  open(): void {
    window.sgClawEvents = {
      onStateChanged: (state) => this.onState(state),
      onLogEntry: (entry) => {
        for (const tell of this.lineListeners) tell({ time: String(entry.time), message: String(entry.message), level: String(entry.level) })
      },
      onConfirmRequired: (action) => this.onConfirm(action),
      onTaskCompleted: (result) => this.onCompleted(result),
    }
    for (const tell of this.linkListeners) tell({ state: 'open', epoch: 1 })
  }

  close(): void {
    this.watchers.clear()
  }

  hurry(): void {}

  onLink(tell: (link: Link) => void): () => void {
    this.linkListeners.add(tell)
    tell({ state: 'open', epoch: 1 })
    return () => this.linkListeners.delete(tell)
  }

  whoami(): Promise<Who> {
    // Whoever sits in front of the browser decides what is done in it.
    return Promise.resolve({ name: '', role: 'approver', version: '' })
  }

  watch(_: string, started: (seq: number) => void, tell: (e: AgentEvent) => void): () => void {
    started(0)
    for (const e of this.events) tell(e)
    this.watchers.add(tell)
    return () => this.watchers.delete(tell)
  }

  async send(m: Outgoing): Promise<{ runId: string; session: string }> {
    await this.call('sgclaw_submit_task', { instruction: m.text })
    this.begin(m.id, m.text)
    return { runId: m.id, session }
  }

  async abort(): Promise<void> {
    await this.host.stop()
  }

  async answer(_: string, q: Confirmation, r: Reply): Promise<void> {
    await this.call('sgclaw_confirm', {
      action_id: q.id, approved: r.approved, ...(r.note && { note: r.note }), ...(r.approved && r.forRun && { scope: 'run' }),
    })
    if (this.asked?.id !== q.id) return
    this.asked = undefined
    this.tell({ kind: 'confirmed', data: { confirm_id: q.id, approved: r.approved, note: r.note, scope: r.forRun ? 'run' : '' } })
  }

  private call(name: string, params: object): Promise<Response> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new RequestError('TIMEOUT', `${name}: no answer`)), answerMs)
      this.functions(name, params, (r) => {
        clearTimeout(timer)
        if (r?.success) resolve(r)
        else reject(new RequestError(r?.code || 'HOST', r?.error || ''))
      })
    })
  }

  private begin(id: string, task: string): void {
    this.run = id
    this.tell({ kind: 'accepted', data: { task, browser: '' } })
    this.tell({ kind: 'state', data: { status: 'thinking' } })
  }

  private onState(state: HostState): void {
    this.state = state
    for (const tell of this.stateListeners) tell(state)
    if (state === 'stopped' || state === 'error') {
      // The task itself may go on when the agent is started again.
      this.asked = undefined
      if (this.run) this.end('aborted', 'HOST_STOPPED', '')
    }
  }

  private onConfirm(a: BridgeAction): void {
    if (!this.run) this.begin(`host-${++this.count}`, '')
    const ask: Subject = {
      domain: a.domain, role: a.role, name: a.name, context: a.context, url: a.url, prompt: a.prompt, picture: a.picture,
    }
    this.asked = { id: String(a.id), step: 0, action: String(a.type), params: a.params, ask, digest: '', since: new Date().toISOString(), until: a.until }
    this.tell({ kind: 'confirm_required', data: this.asked })
  }

  private onCompleted(r: BridgeResult): void {
    if (!this.run) this.begin(`host-${++this.count}`, '')
    this.asked = undefined
    const status = r.success ? 'done' : r.status && isFinal(r.status) ? r.status : 'failed'
    this.end(status as 'done', r.success ? '' : (r.reason ?? ''), r.summary ?? '')
  }

  private end(status: 'done' | 'failed' | 'refused' | 'aborted', reason: string, summary: string): void {
    const began = this.events.findLast((e) => e.kind === 'accepted' && e.run_id === this.run)
    this.tell({
      kind: 'done',
      data: {
        run_id: this.run, status, success: status === 'done', reason, summary: String(summary), token_usage: noTokens,
        duration_ms: began ? Date.now() - Date.parse(began.at) : 0,
      },
    })
    this.run = ''
  }

  private tell(e: Pick<AgentEvent, 'kind' | 'data'>): void {
    const whole = { ...e, session, run_id: this.run, seq: (this.events.at(-1)?.seq ?? 0) + 1, at: new Date().toISOString() } as AgentEvent
    this.events.push(whole)
    if (this.events.length > 500) this.events.splice(0, 100)
    for (const tell of [...this.watchers]) tell(whole)
  }
}
