// The panel's end of a gateway.

import type { AgentEvent, Confirmation } from '../model/event'
import { LostError, RequestError } from './backend'
import type {
  Asked, Backend, BrowserInfo, Health, Link, Outgoing, Picture, Records, Reply, RunDetail, RunInfo, RunQuery, SessionRow, UsageRow, Who,
} from './backend'
import { Socket } from './socket'
import type { Hello } from './socket'

/** How many past events of a session are told to who begins to watch it. */
const recent = 400

/** How long a request that may be repeated waits for the connection. */
const patienceMs = 120_000

interface Watch {
  session: string
  /** The last event told; undefined before the first answer. */
  seq?: number
  /** Counts requests to watch: the answers to older ones are void. */
  turn: number
  /** Whether events are asked for again from seq on. */
  catching: boolean
  /** How many past events are told. */
  past: number
  started(seq: number, key: string): void
  tell(e: AgentEvent): void
}

export interface GatewayOptions {
  url: string
  token: string
  locale: string
  version: string
}

export class GatewayBackend implements Backend {
  readonly home = 'gateway'
  readonly records: Records
  mainSession = 'agent:main:main'

  private readonly socket: Socket
  private link: Link = { state: 'connecting' }
  private readonly listeners = new Set<(link: Link) => void>()
  private readonly watches = new Set<Watch>()

  constructor(opts: GatewayOptions) {
    this.socket = new Socket({
      ...opts,
      onHello: (h) => this.hello(h),
      onEvent: (event, payload) => {
        if (event === 'sgclaw.event') this.pass(payload as AgentEvent)
      },
      onLink: (link) => this.setLink(link),
    })
    this.records = new GatewayRecords(this)
  }

  open(): void {
    this.socket.open()
  }

  close(): void {
    this.socket.close()
  }

  hurry(): void {
    this.socket.hurry()
  }

  onLink(tell: (link: Link) => void): () => void {
    this.listeners.add(tell)
    tell(this.link)
    return () => this.listeners.delete(tell)
  }

  whoami(): Promise<Who> {
    return this.request('sgclaw.whoami', {})
  }

  watch(session: string, started: (seq: number, key: string) => void, tell: (e: AgentEvent) => void, onlyNew = false): () => void {
    const w: Watch = { session, turn: 0, catching: false, past: onlyNew ? 0 : recent, started, tell }
    this.watches.add(w)
    if (this.link.state === 'open') void this.follow(w)
    return () => {
      this.watches.delete(w)
      w.turn++ // an answer that is still to come is void
      if (this.link.state === 'open' && ![...this.watches].some((o) => o.session === w.session)) {
        this.socket.request('sgclaw.unwatch', { sessionKey: w.session }).catch(ignore)
      }
    }
  }

  async send(m: Outgoing): Promise<{ runId: string; session: string }> {
    const { runId, sessionKey } = await this.insist<{ runId: string; sessionKey: string }>('sgclaw.send', {
      sessionKey: m.session, text: m.text, idempotencyKey: m.id, ...(m.browser && { browser: m.browser }), ...(m.mode && { mode: m.mode }),
    })
    return { runId, session: sessionKey }
  }

  async abort(runId: string): Promise<void> {
    await this.insist('sgclaw.runs.abort', { runId })
  }

  async answer(runId: string, q: Confirmation, r: Reply): Promise<void> {
    await this.insist('sgclaw.confirmations.answer', {
      runId, confirmId: q.id, approved: r.approved,
      ...(q.digest && { digest: q.digest }), ...(r.note && { note: r.note }), ...(r.approved && r.forRun && { scope: 'run' }),
    })
  }

  request<T>(method: string, params: object): Promise<T> {
    return this.socket.request<T>(method, params)
  }

  /**
   * A request that may be repeated: if the connection is lost before the
   * answer, it is sent again on the next one.
   */
  async insist<T>(method: string, params: object): Promise<T> {
    const until = Date.now() + patienceMs
    for (;;) {
      try {
        await this.opened(until)
        return await this.socket.request<T>(method, params)
      } catch (err) {
        const again = err instanceof LostError || (err instanceof RequestError && err.code === 'TIMEOUT')
        if (!again || Date.now() >= until) throw err
      }
    }
  }

  private opened(until: number): Promise<void> {
    if (this.link.state === 'open') return Promise.resolve()
    return new Promise((resolve, reject) => {
      const done = (err?: Error) => {
        clearTimeout(timer)
        stop()
        if (err) reject(err)
        else resolve()
      }
      const timer = setTimeout(() => done(new RequestError('NOT_CONNECTED', 'no connection')), Math.max(0, until - Date.now()))
      const listener = (link: Link) => {
        if (link.state === 'open') done()
        else if (link.state === 'refused' || link.state === 'closed') done(new RequestError('NOT_CONNECTED', 'no connection'))
      }
      const stop = () => this.listeners.delete(listener)
      this.listeners.add(listener)
    })
  }

  private hello(h: Hello): void {
    this.mainSession = h.snapshot?.sessionDefaults?.mainSessionKey || this.mainSession
  }

  private setLink(link: Link): void {
    this.link = link
    for (const tell of [...this.listeners]) tell(link)
    if (link.state === 'open') for (const w of this.watches) void this.follow(w)
  }

  /** Asks for the events of a session after those that were told. */
  private async follow(w: Watch): Promise<void> {
    const turn = ++w.turn
    w.catching = true
    try {
      if (w.seq === undefined) {
        const { lastSeq, sessionKey } = await this.watchAfter(w, undefined)
        if (turn !== w.turn) return
        w.seq = Math.max(0, lastSeq - w.past)
        w.session = sessionKey
        w.started(w.seq, sessionKey)
        if (lastSeq === w.seq) return
      }
      await this.watchAfter(w, w.seq)
    } catch (err) {
      // A lost connection is followed by the next one.
      if (!(err instanceof LostError)) console.warn('watch', err)
    } finally {
      if (turn === w.turn) w.catching = false
    }
  }

  private watchAfter(w: Watch, after: number | undefined): Promise<{ sessionKey: string; lastSeq: number }> {
    return this.socket.request('sgclaw.watch', { sessionKey: w.session, ...(after !== undefined && { after }) })
  }

  private pass(e: AgentEvent): void {
    for (const w of this.watches) {
      if (w.session !== e.session || w.seq === undefined) continue
      if (e.seq) {
        if (e.seq <= w.seq) continue
        if (e.seq > w.seq + 1) {
          // Something is missing: it is asked for, and this comes again.
          if (!w.catching) void this.follow(w)
          continue
        }
        w.seq = e.seq
      }
      w.tell(e)
    }
  }
}

function ignore(): void {}

class GatewayRecords implements Records {
  constructor(private readonly g: GatewayBackend) {}

  runs(q: RunQuery): Promise<{ runs: RunInfo[]; hasMore: boolean }> {
    return this.g.request('sgclaw.runs.list', defined(q))
  }

  run(runId: string): Promise<RunDetail> {
    return this.g.request('sgclaw.runs.get', { runId })
  }

  image(runId: string, step: number, index: number): Promise<Picture> {
    return this.g.request('sgclaw.runs.image', { runId, step, index })
  }

  async steer(runId: string, text: string, id: string): Promise<void> {
    await this.g.insist('sgclaw.runs.steer', { runId, text, idempotencyKey: id })
  }

  async rewind(runId: string, step: number, text: string): Promise<void> {
    await this.g.request('sgclaw.runs.rewind', { runId, step, ...(text && { text }) })
  }

  async move(runId: string, browser: string): Promise<void> {
    await this.g.request('sgclaw.runs.move', { runId, browser })
  }

  async confirmations(session?: string): Promise<Asked[]> {
    const { confirmations } = await this.g.request<{ confirmations: Asked[] }>('sgclaw.confirmations.list', session ? { sessionKey: session } : {})
    return confirmations
  }

  picture(runId: string, confirmId: string): Promise<Picture> {
    return this.g.request('sgclaw.confirmations.picture', { runId, confirmId })
  }

  queue(session: string): Promise<{ running?: string; queued: { runId: string; task: string }[] }> {
    return this.g.request('sgclaw.queue', { sessionKey: session })
  }

  async browsers(): Promise<BrowserInfo[]> {
    return (await this.g.request<{ browsers: BrowserInfo[] }>('sgclaw.browsers', {})).browsers
  }

  health(): Promise<Health> {
    return this.g.request('sgclaw.health', {})
  }

  async usage(from: string, to: string, timezone: string): Promise<UsageRow[]> {
    return (await this.g.request<{ rows: UsageRow[] }>('sgclaw.usage', { from, to, timezone })).rows
  }

  async sessions(search: string, offset: number): Promise<{ sessions: SessionRow[]; hasMore: boolean }> {
    const page = await this.g.request<{ sessions: (SessionRow & { agentId?: string; lastMessagePreview?: string; derivedTitle?: string })[]; hasMore?: boolean }>(
      'sessions.list',
      { limit: 50, offset, includeDerivedTitles: true, includeLastMessage: true, ...(search && { search }) },
    )
    return {
      sessions: page.sessions.map((s) => ({ ...s, agent: s.agentId, lastMessage: s.lastMessagePreview || s.derivedTitle })),
      hasMore: page.hasMore ?? false,
    }
  }

  async renameSession(key: string, label: string): Promise<void> {
    await this.g.request('sessions.patch', { key, label: label || null })
  }

  async resetSession(key: string): Promise<void> {
    await this.g.request('sessions.reset', { key })
  }

  async deleteSession(key: string): Promise<void> {
    await this.g.request('sessions.delete', { key })
  }
}

function defined(o: object): object {
  return Object.fromEntries(Object.entries(o).filter(([, v]) => v !== undefined && v !== ''))
}
