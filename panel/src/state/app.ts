// What all views share: the connection, who is using the panel, the session
// that is shown, and what waits for an answer elsewhere.

import { computed, inject, ref, shallowRef, watch } from 'vue'
import type { InjectionKey } from 'vue'
import { covers } from '../backend/backend'
import type { Asked, Backend, Health, HostLine, HostState, Link, Role, Who } from '../backend/backend'
import { lasting } from '../backend/settings'
import type { Where } from '../backend/settings'
import { isFinal } from '../model/event'
import { newId } from '../model/id'
import type { Confirmation, Mode } from '../model/event'
import { fromDetail, fromInfo } from '../model/record'
import { emptySession, reduceSession, shownRun, withRecord } from '../model/session'
import type { SessionState } from '../model/session'
import type { Prefs } from './prefs'

const sessionKey = 'sgclaw.session'
const healthEveryMs = 15_000
const askedEveryMs = 20_000
const maxHostLines = 400

export interface HostLogLine extends HostLine {
  id: number
}

/** A message on its way to the other side. */
export interface Sending {
  id: string
  text: string
}

/** What stands behind the panel; nothing if a token is needed first. */
export interface Found {
  backend?: Backend
  where: Where
}

export function makeApp(prefs: Prefs, find: () => Promise<Found>) {
  const backend = shallowRef<Backend>()
  const link = shallowRef<Link>({ state: 'connecting' })
  const me = shallowRef<Who>()
  const health = shallowRef<Health>()
  const where = shallowRef<Where>({ address: '', url: '', token: '' })
  const session = ref('')
  const state = shallowRef<SessionState>(emptySession(''))
  /** Whether what is known of the session has come. */
  const loaded = ref(false)
  const asked = shallowRef<Asked[]>([])
  const hostState = ref<HostState>('stopped')
  const hostLines = shallowRef<HostLogLine[]>([])
  const sending = shallowRef<Sending[]>([])
  const polite = ref('')
  const urgent = ref('')

  let unwatch: (() => void) | undefined
  let stops: (() => void)[] = []
  const asking = new Set<string>()
  const settled = new Set<string>()

  const run = computed(() => shownRun(state.value))
  const online = computed(() => link.value.state === 'open')

  /** Why somebody may not do what takes a role; undefined if they may. */
  function whyNot(role: Role): { key: string; params: Record<string, string> } | undefined {
    if (!online.value) return { key: 'may.offline', params: {} }
    if (covers(me.value?.role, role)) return undefined
    return { key: 'may.needs', params: { role, own: me.value?.role ?? 'viewer' } }
  }

  function say(text: string, now = false): void {
    const region = now ? urgent : polite
    // The same text again is to be read again.
    region.value = region.value === text ? text + '\u00a0' : text
  }

  async function start(): Promise<void> {
    stop()
    link.value = { state: 'connecting' }
    const found = await find()
    where.value = found.where
    const b = found.backend
    if (!b) {
      link.value = { state: 'token' }
      return
    }
    backend.value = b
    const kept = b.home === 'gateway' ? await lasting.get(sessionKey) : ''
    stops = [b.onLink((l) => onLink(b, l))]
    if (b.host) {
      let n = 0
      stops.push(
        b.host.onState((s) => (hostState.value = s)),
        b.host.onLine((l) => (hostLines.value = [...hostLines.value.slice(-(maxHostLines - 1)), { ...l, id: ++n }])),
      )
    }
    if (b.records) {
      stops.push(every(healthEveryMs, refreshHealth), every(askedEveryMs, refreshAsked))
    }
    if (kept) show(kept)
    else if (b.home === 'bridge') show(b.mainSession)
    b.open()
  }

  function hurry(): void {
    backend.value?.hurry()
  }

  function stop(): void {
    for (const s of stops) s()
    stops = []
    unwatch?.()
    unwatch = undefined
    backend.value?.close()
    backend.value = undefined
    me.value = undefined
    health.value = undefined
    asked.value = []
    session.value = ''
    state.value = emptySession('')
  }

  function onLink(b: Backend, l: Link): void {
    const before = link.value.state
    link.value = l
    if (l.state !== 'open' || before === 'open') return
    void b.whoami().then((w) => (me.value = w), ignore)
    if (!session.value) show(b.mainSession)
    else void loadRuns(b, session.value)
    void refreshHealth()
    void refreshAsked()
  }

  /** Shows another session. */
  function show(key: string): void {
    const b = backend.value
    if (!b || key === session.value) return
    unwatch?.()
    session.value = key
    state.value = emptySession(key)
    loaded.value = false
    if (b.home === 'gateway') void lasting.set(sessionKey, key)
    unwatch = b.watch(
      key,
      (seq, name) => {
        if (name !== key) {
          session.value = name
          if (b.home === 'gateway') void lasting.set(sessionKey, name)
          void loadRuns(b, name)
        }
        state.value = { ...state.value, key: name, seq }
      },
      (e) => {
        state.value = reduceSession(state.value, e)
        if (e.kind === 'confirm_required' || e.kind === 'confirmed' || e.kind === 'done') void refreshAsked()
        // What it cost is in the record only.
        if (e.kind === 'done' && loaded.value) void loadRuns(b, session.value)
      },
    )
    if (link.value.state === 'open') void loadRuns(b, key)
  }

  /** Reads from the record what the events that came do not tell. */
  async function loadRuns(b: Backend, key: string): Promise<void> {
    if (b.records) {
      try {
        const { runs } = await b.records.runs({ sessionKey: key, limit: 20 })
        if (session.value !== key) return
        for (const info of runs.reverse()) state.value = withRecord(state.value, fromInfo(info))
      } catch {
        // What the events tell has to do.
      }
    }
    if (session.value === key) loaded.value = true
  }

  // A run that is shown and not known from its first event on is read.
  watch(run, (r) => {
    const b = backend.value
    if (r && !r.whole && b) complete(b, r.id)
  })

  function complete(b: Backend, id: string): void {
    if (!b.records || asking.has(id) || state.value.runs[id]?.whole) return
    asking.add(id)
    b.records
      .run(id)
      .then((d) => {
        if (d.run.sessionKey === session.value) state.value = withRecord(state.value, fromDetail(d))
      }, ignore)
      .finally(() => asking.delete(id))
  }

  async function refreshHealth(): Promise<void> {
    const b = backend.value
    if (!b?.records || !online.value) return
    try {
      health.value = await b.records.health()
    } catch {
      // The connection shows its own trouble.
    }
  }

  async function refreshAsked(): Promise<void> {
    const b = backend.value
    if (!b?.records || !online.value) return
    try {
      const open = await b.records.confirmations()
      asked.value = open.filter((a) => !settled.has(moment(a.confirmation)))
    } catch {
      // As above.
    }
  }

  /** Leaves out a question that was answered here: the list may still have it for a moment. */
  function settle(q: Confirmation): void {
    settled.add(moment(q))
    asked.value = asked.value.filter((a) => moment(a.confirmation) !== moment(q))
  }

  /** Sends a message to the session that is shown. */
  async function send(text: string, mode?: Mode, browser?: string): Promise<void> {
    const b = backend.value
    if (!b) return
    const m = { id: newId(), text }
    sending.value = [...sending.value, m]
    try {
      await b.send({ session: session.value, text, id: m.id, mode, browser })
    } finally {
      sending.value = sending.value.filter((s) => s !== m)
    }
  }

  const elsewhere = computed(() => asked.value.filter((a) => a.sessionKey !== session.value))
  const working = computed(() => (run.value ? !isFinal(run.value.status) : false))

  return {
    prefs, backend, link, where, me, health, session, state, loaded, run, working, online, asked, elsewhere, hostState, hostLines, sending, polite, urgent,
    whyNot, say, start, stop, hurry, show, send, settle, refreshAsked, refreshHealth,
  }
}

/** A question and when it was asked: after a rewind the same id may be asked about again. */
function moment(q: Confirmation): string {
  return `${q.id} ${q.since}`
}

/** Calls f from time to time, while somebody is looking. */
function every(ms: number, f: () => Promise<void>): () => void {
  const timer = setInterval(() => {
    if (!document.hidden) void f()
  }, ms)
  return () => clearInterval(timer)
}

function ignore(): void {}

export type App = ReturnType<typeof makeApp>

export const appKey: InjectionKey<App> = Symbol('app')

export function useApp(): App {
  const app = inject(appKey)
  if (!app) throw new Error('no app is provided')
  return app
}
