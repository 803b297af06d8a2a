// Texts for people, in Chinese and English.

import { createI18n } from 'vue-i18n'
import { en } from './en'
import { zh } from './zh'

export type Lang = 'zh' | 'en'

/** The language that the system prefers, of those that there are. */
export function systemLang(): Lang {
  for (const l of navigator.languages ?? [navigator.language]) {
    if (/^zh\b/i.test(l)) return 'zh'
    if (/^en\b/i.test(l)) return 'en'
  }
  return 'en'
}

export function makeI18n(lang: Lang) {
  return createI18n({ legacy: false, locale: lang, fallbackLocale: 'en', messages: { en, zh } })
}
