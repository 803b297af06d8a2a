// The panel around a component, with a backend that does what a test says.
import { flushPromises, mount } from '@vue/test-utils'
import { vi } from 'vitest'
import { defineComponent, h } from 'vue'
import type { Component } from 'vue'
import { createMemoryHistory, createRouter } from 'vue-router'
import type { Backend, Health, Link, Records, Role } from '../src/backend/backend'
import { makeI18n } from '../src/i18n'
import type { Lang } from '../src/i18n'
import type { AgentEvent } from '../src/model/event'
import { appKey, makeApp } from '../src/state/app'
import { makePrefs } from '../src/state/prefs'

export const healthy: Health = {
  temporal: { ok: true }, database: { ok: true }, worker: { ok: true }, model: { configured: true, name: 'm' }, browsers: { online: 1, total: 1 },
}

export class FakeBackend implements Backend {
  readonly home = 'gateway' as const
  readonly mainSession = 's'
  links: ((l: Link) => void)[] = []
  watchers: ((e: AgentEvent) => void)[] = []
  health: Health = healthy
  readonly send = vi.fn<Backend['send']>((m) => Promise.resolve({ runId: m.id, session: m.session }))
  readonly abort = vi.fn<Backend['abort']>(() => Promise.resolve())
  readonly answer = vi.fn<Backend['answer']>(() => Promise.resolve())
  readonly records: Records

  constructor(readonly role: Role, records: Partial<Records> = {}) {
    const nothing = () => Promise.reject(new Error('not asked for in this test'))
    this.records = {
      runs: () => Promise.resolve({ runs: [], hasMore: false }), run: nothing, image: nothing, steer: nothing, rewind: nothing, move: nothing,
      confirmations: () => Promise.resolve([]), picture: nothing, queue: nothing, browsers: () => Promise.resolve([]),
      health: () => Promise.resolve(this.health), usage: () => Promise.resolve([]), sessions: () => Promise.resolve({ sessions: [], hasMore: false }),
      renameSession: nothing, resetSession: nothing, deleteSession: nothing, ...records,
    }
  }

  open() {
    this.link({ state: 'open', epoch: 1 })
  }
  close() {}
  hurry() {}
  onLink(tell: (l: Link) => void) {
    this.links.push(tell)
    return () => {}
  }
  whoami() {
    return Promise.resolve({ name: 'ann', role: this.role, version: '1' })
  }
  watch(session: string, started: (seq: number, key: string) => void, tell: (e: AgentEvent) => void) {
    started(0, session)
    this.watchers.push(tell)
    return () => {}
  }

  link(l: Link) {
    for (const tell of this.links) tell(l)
  }
  tell(...events: AgentEvent[]) {
    for (const e of events) for (const tell of this.watchers) tell(e)
  }
}

export async function show(component: Component, backend: Backend | undefined, props: Record<string, unknown> = {}, lang: Lang = 'en') {
  localStorage.clear()
  const prefs = await makePrefs()
  const app = makeApp(prefs, () => Promise.resolve({ backend, where: { address: '', url: 'ws://gw/ws', token: backend ? 't' : '' } }))
  const page = defineComponent(() => () => h('div'))
  const router = createRouter({
    history: createMemoryHistory(),
    routes: ['agent', 'sessions', 'history', 'run', 'browsers', 'browser', 'usage', 'settings'].map((name) => ({ path: `/${name}/:id?`, name, component: page })),
  })
  await router.push({ name: 'agent' })
  const i18n = makeI18n(lang)
  const wrapper = mount(component, { props, attachTo: document.body, global: { plugins: [i18n, router], provide: { [appKey as symbol]: app } } })
  await app.start()
  await flushPromises()
  const get = (id: string) => wrapper.find(`[data-testid="${id}"]`)
  return { wrapper, app, router, get }
}
