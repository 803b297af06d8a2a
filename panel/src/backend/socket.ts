// A connection to a gateway: OpenClaw's protocol, version 4, over a
// WebSocket. It connects again when it was lost, after 1 s, 2 s, 4 s and so on
// up to 30 s, and gives up only when the gateway says that this client is not
// wanted.

import { LostError, RequestError } from './backend'
import type { Link } from './backend'
import { newId } from '../model/id'

const protocol = 4
const challengeMs = 15_000
const requestMs = 30_000
const firstRetryMs = 1_000
const lastRetryMs = 30_000
const defaultTickMs = 30_000

/** Close code of a client that heard nothing for two ticks. */
const closeSilent = 4000

export interface Hello {
  server: { version: string; connId: string }
  auth: { role: string; scopes: string[] }
  policy: { tickIntervalMs: number }
  snapshot?: { sessionDefaults?: { mainSessionKey?: string } }
}

interface WireError {
  code: string
  message: string
  details?: { code?: string; reason?: string }
  retryable?: boolean
  retryAfterMs?: number
}

type Frame =
  | { type: 'event'; event: string; payload?: unknown; seq?: number }
  | { type: 'res'; id: string; ok: boolean; payload?: unknown; error?: WireError }

interface Waiting {
  resolve(payload: unknown): void
  reject(err: Error): void
  timer: ReturnType<typeof setTimeout>
}

export interface SocketOptions {
  url: string
  token: string
  locale: string
  version: string
  /** Told when the connection is ready for requests. */
  onHello(hello: Hello): void
  onEvent(event: string, payload: unknown): void
  onLink(link: Link): void
}

/** Codes of details after which trying again with the same token is no use. */
function isFinalRefusal(e: WireError): boolean {
  const code = e.details?.code ?? e.code
  if (e.retryable || code === 'AUTH_RATE_LIMITED') return false
  return code.startsWith('AUTH_') || ['PROTOCOL_MISMATCH', 'CONTROL_UI_ORIGIN_NOT_ALLOWED', 'NOT_PAIRED', 'FORBIDDEN', 'INVALID_REQUEST'].includes(code)
}

export class Socket {
  private ws?: WebSocket
  private ready = false
  private closed = false
  private everOpen = false
  private epoch = 0
  private lostAt = 0
  private retryMs = firstRetryMs
  private tickMs = defaultTickMs
  private retryTimer?: ReturnType<typeof setTimeout>
  private silence?: ReturnType<typeof setTimeout>
  private counter = 0
  private readonly waiting = new Map<string, Waiting>()
  private readonly instance = newId()

  constructor(private readonly opts: SocketOptions) {}

  open(): void {
    this.closed = false
    addEventListener('online', this.onWake)
    document.addEventListener('visibilitychange', this.onWake)
    this.connect()
  }

  close(): void {
    this.closed = true
    removeEventListener('online', this.onWake)
    document.removeEventListener('visibilitychange', this.onWake)
    clearTimeout(this.retryTimer)
    this.drop(1000)
    this.opts.onLink({ state: 'closed' })
  }

  /** Sends a request and returns the payload of its response. */
  request<T>(method: string, params: object): Promise<T> {
    if (!this.ready) return Promise.reject(new LostError('not connected'))
    return this.call<T>(method, params)
  }

  /** Connects at once if that was to be tried later. */
  hurry(): void {
    if (this.retryTimer === undefined) return
    clearTimeout(this.retryTimer)
    this.connect()
  }

  private readonly onWake = () => {
    // A machine that woke up does not wait for its turn.
    if (!document.hidden) this.hurry()
  }

  private connect(): void {
    this.retryTimer = undefined
    if (!this.lostAt) this.opts.onLink({ state: 'connecting' })
    let ws: WebSocket
    try {
      ws = new WebSocket(this.opts.url)
    } catch {
      this.refuse({ code: 'BAD_ADDRESS', message: this.opts.url })
      return
    }
    this.ws = ws
    this.heard(challengeMs)
    ws.onmessage = (m) => {
      if (this.ws === ws && typeof m.data === 'string') this.receive(m.data)
    }
    ws.onclose = () => {
      if (this.ws === ws) this.lost()
    }
  }

  /** Expects the next frame within a time. */
  private heard(ms = this.tickMs * 2): void {
    clearTimeout(this.silence)
    this.silence = setTimeout(() => {
      this.drop(closeSilent)
      this.lost()
    }, ms)
  }

  private receive(text: string): void {
    let frame: Frame
    try {
      frame = JSON.parse(text) as Frame
    } catch {
      return
    }
    this.heard(this.ready ? undefined : challengeMs)
    if (frame.type === 'res') this.settle(frame)
    else if (frame.type === 'event') {
      if (frame.event === 'connect.challenge') void this.shakeHands()
      else if (frame.event === 'shutdown') this.retryMs = firstRetryMs
      else if (frame.event !== 'tick') this.opts.onEvent(frame.event, frame.payload)
    }
  }

  private async shakeHands(): Promise<void> {
    const ws = this.ws
    try {
      const hello = await this.call<Hello>('connect', {
        minProtocol: protocol,
        maxProtocol: protocol,
        client: { id: 'webchat-ui', version: this.opts.version, platform: 'web', mode: 'webchat', instanceId: this.instance },
        caps: [],
        role: 'operator',
        scopes: ['operator.read', 'operator.write', 'operator.approvals', 'operator.admin'],
        auth: { token: this.opts.token },
        locale: this.opts.locale,
      })
      if (this.ws !== ws) return
      this.tickMs = hello.policy?.tickIntervalMs || defaultTickMs
      this.ready = true
      this.everOpen = true
      this.lostAt = 0
      this.retryMs = firstRetryMs
      this.heard()
      this.opts.onHello(hello)
      this.opts.onLink({ state: 'open', epoch: ++this.epoch })
    } catch (err) {
      if (this.ws !== ws) return
      if (err instanceof Refusal) this.refuse(err)
      // Else the gateway closes, or has closed.
    }
  }

  private refuse(err: { code: string; message: string }): void {
    clearTimeout(this.retryTimer)
    this.drop(1000)
    this.opts.onLink({ state: 'refused', code: err.code, message: err.message })
  }

  private call<T>(method: string, params: object): Promise<T> {
    const ws = this.ws
    if (!ws || ws.readyState !== WebSocket.OPEN) return Promise.reject(new LostError('not connected'))
    const id = `${++this.counter}:${this.instance}`
    return new Promise<T>((resolve, reject) => {
      const timer = setTimeout(() => {
        this.waiting.delete(id)
        reject(new RequestError('TIMEOUT', `${method}: no answer`, true))
      }, requestMs)
      this.waiting.set(id, { resolve: (p) => resolve(p as T), reject, timer })
      ws.send(JSON.stringify({ type: 'req', id, method, params }))
    })
  }

  private settle(res: Extract<Frame, { type: 'res' }>): void {
    const w = this.waiting.get(res.id)
    if (!w) return
    this.waiting.delete(res.id)
    clearTimeout(w.timer)
    if (res.ok) {
      w.resolve(res.payload)
      return
    }
    const e = res.error ?? { code: 'UNAVAILABLE', message: '' }
    const code = e.details?.code ?? e.code
    if (!this.ready) {
      if (e.retryAfterMs) this.retryMs = Math.max(firstRetryMs, e.retryAfterMs)
      w.reject(isFinalRefusal(e) ? new Refusal(code, e.message) : new LostError(e.message))
      return
    }
    w.reject(new RequestError(code, e.message, e.retryable))
  }

  private drop(code: number): void {
    clearTimeout(this.silence)
    const ws = this.ws
    this.ws = undefined
    this.ready = false
    for (const [id, w] of this.waiting) {
      clearTimeout(w.timer)
      this.waiting.delete(id)
      w.reject(new LostError('the connection was lost'))
    }
    if (ws && ws.readyState <= WebSocket.OPEN) ws.close(code)
  }

  private lost(): void {
    this.drop(1000)
    if (this.closed) return
    const now = Date.now()
    this.lostAt ||= now
    const wait = this.retryMs
    this.retryMs = Math.min(this.retryMs * 2, lastRetryMs)
    this.opts.onLink({ state: 'lost', since: this.lostAt, retryAt: now + wait, everOpen: this.everOpen })
    this.retryTimer = setTimeout(() => this.connect(), wait)
  }
}

class Refusal extends Error {
  constructor(readonly code: string, message: string) {
    super(message)
  }
}
