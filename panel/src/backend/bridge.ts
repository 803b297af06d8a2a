// The panel's end of a browser host, as SuperRPA gives it to its side panel
// (seed 001 §4.1): window.sgFunctionsUI to call, window.sgClawEvents to be
// called. There is no gateway, no record and no session: tasks are carried out
// one after the other. What the host says is told on as the events of one
// session. Members that the seed does not have may be missing.

import type { AgentEvent, Confirmation, Subject } from '../model/event'
import { noTokens } from '../model/event'
import { RequestError } from './backend'
import type { Backend, Host, HostLine, HostState, Link, Outgoing, Reply, Who } from './backend'

interface Response {
  success: boolean
  error?: string
  code?: string
  /** Of a task that was taken. */
  task_id?: string
}

export type FunctionsUI = (name: string, params: object, callback: (response: Response) => void) => void

/** What onConfirmRequired is given. The seed has the first three. */
export interface BridgeAction {
  id: string
  type: string
  domain?: string
  task_id?: string
  params?: unknown
  role?: string
  name?: string
  context?: string
  url?: string
  rule?: string
  prompt?: { zh?: string; en?: string }
  /** A picture of the element, a data: URL. */
  picture?: string
}

/** What onTaskCompleted is given. The seed has the first two. */
export interface BridgeResult {
  success: boolean
  summary?: string
  reason?: string
  status?: string
  task_id?: string
}

interface BridgeEvents {
  onStateChanged(state: HostState): void
  onLogEntry(entry: HostLine): void
  onConfirmRequired(action: BridgeAction): void
  onTaskCompleted(result: BridgeResult): void
  /** Not in the seed: a question needs no answer any more. */
  onConfirmClosed(closed: { id: string }): void
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
  /** Tasks that have not ended, as they were given. */
  private tasks: string[] = []
  /** Open questions, the first of each task is shown. */
  private asked: { task: string; question: Confirmation }[] = []
  private count = 0
  private seq = 0

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
      onConfirmClosed: (closed) => this.settle(String(closed.id), { approved: false, note: 'void' }),
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

  watch(_: string, started: (seq: number, key: string) => void, tell: (e: AgentEvent) => void): () => void {
    started(0, session)
    for (const e of this.events) tell(e)
    this.watchers.add(tell)
    return () => this.watchers.delete(tell)
  }

  async send(m: Outgoing): Promise<{ runId: string; session: string }> {
    const r = await this.call('sgclaw_submit_task', { instruction: m.text })
    const id = r.task_id || m.id
    this.begin(id, m.text)
    return { runId: id, session }
  }

  async abort(): Promise<void> {
    await this.host.stop()
  }

  async answer(_: string, q: Confirmation, r: Reply): Promise<void> {
    await this.call('sgclaw_confirm', {
      action_id: q.id, approved: r.approved, ...(r.note && { note: r.note }), ...(r.approved && r.forRun && { scope: 'run' }),
    })
    this.settle(q.id, r)
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
    const first = this.tasks.length === 0
    this.tasks.push(id)
    this.tell(id, { kind: 'accepted', data: { task, browser: '' } })
    if (first) this.tell(id, { kind: 'state', data: { status: 'thinking' } })
  }

  /** The task that something belongs to; one that is not known begins. */
  private taskOf(id: string | undefined): string {
    const task = id || this.tasks[0] || `host-${++this.count}`
    if (!this.tasks.includes(task)) this.begin(task, '')
    return task
  }

  private onState(state: HostState): void {
    this.state = state
    for (const tell of this.stateListeners) tell(state)
    if (state === 'stopped' || state === 'error') {
      // The tasks themselves may go on when the agent is started again.
      for (const id of [...this.tasks]) this.end(id, 'aborted', 'HOST_STOPPED', '')
    }
  }

  private onConfirm(a: BridgeAction): void {
    const task = this.taskOf(a.task_id)
    const ask: Subject = {
      domain: a.domain, role: a.role, name: a.name, context: a.context, url: a.url, rule: a.rule, prompt: a.prompt, picture: a.picture,
    }
    const question: Confirmation = { id: String(a.id), step: 0, action: String(a.type), params: a.params, ask, digest: '', since: new Date().toISOString() }
    const shown = this.asked.some((o) => o.task === task)
    this.asked.push({ task, question })
    if (!shown) this.tell(task, { kind: 'confirm_required', data: question })
  }

  /** A question is answered or void; the next one of its task is shown. */
  private settle(id: string, r: Reply): void {
    const one = this.asked.find((o) => o.question.id === id)
    if (!one) return
    const shown = this.asked.find((o) => o.task === one.task) === one
    this.asked = this.asked.filter((o) => o !== one)
    if (!shown) return
    this.tell(one.task, { kind: 'confirmed', data: { confirm_id: id, approved: r.approved, note: r.note, scope: r.forRun ? 'run' : '' } })
    const next = this.asked.find((o) => o.task === one.task)
    if (next) this.tell(one.task, { kind: 'confirm_required', data: next.question })
  }

  private onCompleted(r: BridgeResult): void {
    const status = r.success ? 'done' : r.status === 'refused' || r.status === 'aborted' ? r.status : 'failed'
    this.end(this.taskOf(r.task_id), status, r.success ? '' : (r.reason ?? ''), String(r.summary ?? ''))
  }

  private end(id: string, status: 'done' | 'failed' | 'refused' | 'aborted', reason: string, summary: string): void {
    this.tasks = this.tasks.filter((t) => t !== id)
    this.asked = this.asked.filter((o) => o.task !== id)
    const began = this.events.findLast((e) => e.kind === 'accepted' && e.run_id === id)
    this.tell(id, {
      kind: 'done',
      data: {
        run_id: id, status, success: status === 'done', reason, summary, token_usage: noTokens,
        duration_ms: began ? Date.now() - Date.parse(began.at) : 0,
      },
    })
    const next = this.tasks[0]
    if (next && status !== 'aborted') this.tell(next, { kind: 'state', data: { status: 'thinking' } })
  }

  private tell(run: string, e: Pick<AgentEvent, 'kind' | 'data'>): void {
    const whole = { ...e, session, run_id: run, seq: ++this.seq, at: new Date().toISOString() } as AgentEvent
    this.events.push(whole)
    if (this.events.length > 500) this.events.splice(0, 100)
    for (const tell of [...this.watchers]) tell(whole)
  }
}
