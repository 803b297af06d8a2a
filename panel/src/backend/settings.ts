// Where the gateway is and who is asking: from the address of the page, else
// from what was kept. A token belongs to one gateway, so that a link to
// another one does not carry it there.

interface Area {
  get(keys: string): Promise<Record<string, unknown>>
  set(items: Record<string, unknown>): Promise<void>
  remove(keys: string): Promise<void>
}

declare const chrome: { storage?: { local?: Area; session?: Area } } | undefined

const gatewayKey = 'sgclaw.gateway'
const tokenKey = 'sgclaw.token'

/** A place to keep a value: an extension's storage, else the page's. */
export interface Keep {
  get(key: string): Promise<string>
  set(key: string, value: string): Promise<void>
}

function extensionKeep(area: Area): Keep {
  return {
    async get(key) {
      const v = (await area.get(key))[key]
      return typeof v === 'string' ? v : ''
    },
    async set(key, value) {
      await (value ? area.set({ [key]: value }) : area.remove(key))
    },
  }
}

function pageKeep(storage: () => Storage): Keep {
  return {
    async get(key) {
      try {
        return storage().getItem(key) ?? ''
      } catch {
        return '' // the browser allows no storage
      }
    },
    async set(key, value) {
      try {
        if (value) storage().setItem(key, value)
        else storage().removeItem(key)
      } catch {
        // As above: it is asked for again next time.
      }
    },
  }
}

const areas = typeof chrome === 'undefined' ? undefined : chrome?.storage

/** Kept until it is removed. */
export const lasting: Keep = areas?.local ? extensionKeep(areas.local) : pageKeep(() => localStorage)
/** Kept as long as the browser, or its tab, is open. */
export const passing: Keep = areas?.session ? extensionKeep(areas.session) : pageKeep(() => sessionStorage)

/** The gateway's WebSocket for an address as people write it; empty if it is none. */
export function socketUrl(address: string, base: string): string {
  let url: URL
  try {
    const text = address.trim()
    url = new URL(/^[a-z]+:\/\//i.test(text) || text === '' ? text : `http://${text}`, base)
  } catch {
    return ''
  }
  url.hash = url.search = ''
  const scheme = { 'http:': 'ws:', 'https:': 'wss:', 'ws:': 'ws:', 'wss:': 'wss:' }[url.protocol]
  if (!scheme || !url.host) return ''
  const path = url.pathname.endsWith('/ws') ? url.pathname : url.pathname.slice(0, url.pathname.lastIndexOf('/') + 1) + 'ws'
  return `${scheme}//${url.host}${path}`
}

/** Where a gateway listens unless it is told otherwise. */
export const defaultGateway = 'http://127.0.0.1:18789'

export interface Where {
  /** As it was given; empty is the page's own origin. */
  address: string
  url: string
  token: string
}

/** Reads where to connect, and takes the token out of the page's address. */
export async function findGateway(): Promise<Where> {
  const given = new URLSearchParams(location.search).get('gateway')
  const address = given ?? (await lasting.get(gatewayKey))
  const url = urlOf(address)
  const fragment = new URLSearchParams(location.hash.replace(/^#\/?/, ''))
  const fresh = location.hash.startsWith('#/') ? null : fragment.get('token')
  if (fresh !== null) {
    // It must not stay where it is seen, bookmarked or sent along.
    history.replaceState(history.state, '', location.pathname + location.search + '#/')
    await keepToken(url, fresh, false)
  }
  return { address, url, token: fresh ?? (await tokenFor(url)) }
}

/** The WebSocket for an address that may be empty. */
export function urlOf(address: string): string {
  const own = /^https?:$/.test(location.protocol)
  return socketUrl(address || (own ? '' : defaultGateway), document.baseURI)
}

async function tokenFor(url: string): Promise<string> {
  return (await passing.get(`${tokenKey} ${url}`)) || (await lasting.get(`${tokenKey} ${url}`))
}

/** Keeps a token for a gateway; empty forgets it. */
export async function keepToken(url: string, token: string, remember: boolean): Promise<void> {
  await passing.set(`${tokenKey} ${url}`, token)
  if (remember || !token) await lasting.set(`${tokenKey} ${url}`, token)
}

export async function keepGateway(address: string): Promise<void> {
  await lasting.set(gatewayKey, address.trim())
}
