// What a person prefers: language and colours, kept on the device.

import { computed, ref, watch, watchEffect } from 'vue'
import { lasting } from '../backend/settings'
import { systemLang } from '../i18n'
import type { Lang } from '../i18n'

export type Theme = 'light' | 'dark'
export type Choice<T extends string> = T | 'system'

const langKey = 'sgclaw.lang'
const themeKey = 'sgclaw.theme'

export async function makePrefs() {
  const lang = ref(choice<Lang>(await lasting.get(langKey), ['zh', 'en']))
  const theme = ref(choice<Theme>(await lasting.get(themeKey), ['light', 'dark']))

  const dark = matchMedia('(prefers-color-scheme: dark)')
  const systemTheme = ref<Theme>(dark.matches ? 'dark' : 'light')
  dark.addEventListener('change', () => (systemTheme.value = dark.matches ? 'dark' : 'light'))
  const system = ref(systemLang())
  addEventListener('languagechange', () => (system.value = systemLang()))

  const shownTheme = computed<Theme>(() => (theme.value === 'system' ? systemTheme.value : theme.value))
  const shownLang = computed<Lang>(() => (lang.value === 'system' ? system.value : lang.value))

  watch(lang, (v) => void lasting.set(langKey, v === 'system' ? '' : v))
  watch(theme, (v) => void lasting.set(themeKey, v === 'system' ? '' : v))
  watchEffect(() => {
    document.documentElement.dataset.theme = shownTheme.value
    document.documentElement.lang = shownLang.value === 'zh' ? 'zh-CN' : 'en'
  })
  return { lang, theme, shownLang, shownTheme }
}

function choice<T extends string>(kept: string, known: readonly T[]): Choice<T> {
  return (known as readonly string[]).includes(kept) ? (kept as T) : 'system'
}

export type Prefs = Awaited<ReturnType<typeof makePrefs>>
