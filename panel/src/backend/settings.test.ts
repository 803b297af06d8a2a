import { beforeEach, describe, expect, test } from 'vitest'
import { findGateway, keepGateway, keepToken, socketUrl, urlOf } from './settings'

describe('the socket for an address', () => {
  test.each([
    ['', 'http://127.0.0.1:18789/', 'ws://127.0.0.1:18789/ws'],
    ['', 'https://gw.example/panel/index.html', 'wss://gw.example/panel/ws'],
    ['', 'https://gw.example/?gateway=#/history', 'wss://gw.example/ws'],
    ['http://10.0.0.1:8080', 'https://x/', 'ws://10.0.0.1:8080/ws'],
    ['https://gw.example/sg/', 'http://x/', 'wss://gw.example/sg/ws'],
    ['wss://gw.example/ws', 'http://x/', 'wss://gw.example/ws'],
    ['ws://localhost:1', 'http://x/', 'ws://localhost:1/ws'],
    ['gw.example:8080', 'http://x/', 'ws://gw.example:8080/ws'],
    ['', 'chrome-extension://abc/index.html', ''],
    ['javascript://alert(1)', 'http://x/', ''],
    ['file:///etc/passwd', 'http://x/', ''],
    ['http://', 'http://x/', ''],
  ])('%s at %s', (address, base, want) => expect(socketUrl(address, base)).toBe(want))
})

describe('where the gateway is', () => {
  beforeEach(() => {
    localStorage.clear()
    sessionStorage.clear()
    history.replaceState(null, '', '/')
  })

  test('a token in the fragment is taken and does not stay there', async () => {
    history.replaceState(null, '', '/#token=abc%2Bd')
    expect((await findGateway()).token).toBe('abc+d')
    expect(location.href).not.toContain('abc')
    expect((await findGateway()).token).toBe('abc+d')
  })

  test('a token is for one gateway only', async () => {
    await keepToken(urlOf(''), 'mine', true)
    expect((await findGateway()).token).toBe('mine')
    history.replaceState(null, '', '/?gateway=http://evil.example')
    const there = await findGateway()
    expect(there).toMatchObject({ url: 'ws://evil.example/ws', token: '' })
  })

  test('a token lasts only if it is to be remembered', async () => {
    await keepToken(urlOf(''), 'one', false)
    sessionStorage.clear()
    expect((await findGateway()).token).toBe('')
    await keepToken(urlOf(''), 'two', true)
    sessionStorage.clear()
    expect((await findGateway()).token).toBe('two')
    await keepToken(urlOf(''), '', true)
    expect((await findGateway()).token).toBe('')
  })

  test('an address is kept', async () => {
    await keepGateway(' http://gw.example ')
    expect(await findGateway()).toMatchObject({ address: 'http://gw.example', url: 'ws://gw.example/ws' })
  })
})
