// A gateway as far as a socket sees it: for tests only.
import { vi } from 'vitest'

interface Request {
  id: string
  method: string
  params: Record<string, unknown>
}

type Answer = (params: Record<string, unknown>) => unknown

export class Refused extends Error {
  constructor(readonly code: string, readonly detail?: string, readonly retryable = false) {
    super(code)
  }
}

export class MockSocket {
  static readonly CONNECTING = 0
  static readonly OPEN = 1
  static readonly CLOSING = 2
  static readonly CLOSED = 3
  readyState = MockSocket.CONNECTING
  onmessage?: (m: { data: string }) => void
  onclose?: () => void
  closedWith?: number

  constructor(readonly url: string, private readonly gateway: MockGateway) {}

  send(text: string): void {
    this.gateway.receive(this, JSON.parse(text) as Request & { type: string })
  }

  close(code?: number): void {
    this.closedWith = code
    this.readyState = MockSocket.CLOSED
    queueMicrotask(() => this.onclose?.())
  }

  tell(frame: object): void {
    this.onmessage?.({ data: JSON.stringify(frame) })
  }
}

export class MockGateway {
  readonly sockets: MockSocket[] = []
  readonly requests: Request[] = []
  readonly answers: Record<string, Answer> = {
    connect: () => ({
      type: 'hello-ok', protocol: 4, server: { version: 'test', connId: 'c' }, auth: { role: 'operator', scopes: [] },
      policy: { tickIntervalMs: 30_000 }, snapshot: { sessionDefaults: { mainSessionKey: 'agent:main:main' } },
    }),
    'sgclaw.watch': (p) => ({ sessionKey: p.sessionKey, lastSeq: 0 }),
    'sgclaw.unwatch': () => ({}),
  }
  /** Methods whose requests are not answered. */
  readonly silent = new Set<string>()

  constructor() {
    const make = (url: string) => {
      const s = new MockSocket(url, this)
      this.sockets.push(s)
      return s
    }
    vi.stubGlobal('WebSocket', Object.assign(function (url: string) { return make(url) }, { CONNECTING: 0, OPEN: 1, CLOSING: 2, CLOSED: 3 }))
  }

  get socket(): MockSocket {
    return this.sockets.at(-1)!
  }

  /** Lets the newest socket open and challenges the client. */
  async accept(): Promise<void> {
    this.socket.readyState = MockSocket.OPEN
    this.socket.tell({ type: 'event', event: 'connect.challenge', payload: { nonce: 'n', ts: 1 } })
    await flush()
  }

  /** The connection is lost. */
  drop(): void {
    this.socket.readyState = MockSocket.CLOSED
    this.socket.onclose?.()
  }

  event(event: string, payload: unknown): void {
    this.socket.tell({ type: 'event', event, payload })
  }

  of(method: string): Record<string, unknown>[] {
    return this.requests.filter((r) => r.method === method).map((r) => r.params)
  }

  receive(socket: MockSocket, r: Request): void {
    this.requests.push(r)
    if (this.silent.has(r.method)) return
    queueMicrotask(() => {
      if (socket.readyState !== MockSocket.OPEN) return
      try {
        const answer = this.answers[r.method]
        if (!answer) throw new Refused('INVALID_REQUEST')
        socket.tell({ type: 'res', id: r.id, ok: true, payload: answer(r.params) })
      } catch (err) {
        if (!(err instanceof Refused)) throw err
        socket.tell({ type: 'res', id: r.id, ok: false, error: { code: err.code, message: err.code, retryable: err.retryable, ...(err.detail && { details: { code: err.detail } }) } })
      }
    })
  }
}

/** Lets everything happen that waits for nothing else. */
export async function flush(): Promise<void> {
  for (let i = 0; i < 20; i++) await Promise.resolve()
}
