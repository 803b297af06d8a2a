import { expect, test, vi } from 'vitest'
import { makeI18n } from '.'
import { en } from './en'
import { zh } from './zh'

function leaves(o: object, path = ''): [string, string][] {
  return Object.entries(o).flatMap(([k, v]) => (typeof v === 'string' ? [[`${path}${k}`, v] as [string, string]] : leaves(v as object, `${path}${k}.`)))
}

const names = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map((m) => m[1]).sort()

const english = leaves(en)
const chinese = new Map(leaves(zh))

test('both languages say the same, with the same names', () => {
  expect([...chinese.keys()].sort()).toEqual(english.map(([k]) => k).sort())
  for (const [key, text] of english) {
    const other = chinese.get(key)!
    // "is", "to" and the like may be left out in Chinese.
    expect(names(text), key).toEqual(expect.arrayContaining(names(other)))
    if (key !== 'states.connecting.text' && text) expect(other, key).not.toBe('')
  }
})

test('every text can be compiled, and is there', () => {
  const warn = vi.spyOn(console, 'warn').mockImplementation(() => {})
  const error = vi.spyOn(console, 'error').mockImplementation(() => {})
  for (const lang of ['en', 'zh'] as const) {
    const { t } = makeI18n(lang).global
    for (const [key, text] of english) {
      if (!key.startsWith('examples.') && text) expect(t(key, Object.fromEntries(names(text).map((n) => [n, '1']))), key).not.toBe(key)
    }
  }
  expect([...warn.mock.calls, ...error.mock.calls]).toEqual([])
})
