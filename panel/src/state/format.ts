// Numbers, times and the like as people read them.

import { computed, onScopeDispose, ref } from 'vue'
import { useI18n } from 'vue-i18n'
import type { Cost } from '../model/run'

const nowRef = ref(Date.now())
let users = 0
let timer: ReturnType<typeof setInterval> | undefined

/** The present, ms since 1970, once a second for as long as it is used. */
export function useNow() {
  if (users++ === 0) {
    nowRef.value = Date.now()
    timer = setInterval(() => (nowRef.value = Date.now()), 1000)
  }
  onScopeDispose(() => {
    if (--users === 0) clearInterval(timer)
  })
  return nowRef
}

export function useFormat() {
  const { locale } = useI18n()
  const tag = computed(() => (locale.value === 'zh' ? 'zh-CN' : 'en'))
  const unit = (n: number, name: string) => new Intl.NumberFormat(tag.value, { style: 'unit', unit: name, unitDisplay: 'narrow', maximumFractionDigits: 1 }).format(n)

  return {
    number: (n: number) => new Intl.NumberFormat(tag.value).format(n),
    short: (n: number) => new Intl.NumberFormat(tag.value, { notation: n >= 10_000 ? 'compact' : 'standard', maximumFractionDigits: 1 }).format(n),
    percent: (n: number) => new Intl.NumberFormat(tag.value, { style: 'percent', maximumFractionDigits: 0 }).format(n),
    cost: (c: Cost) => new Intl.NumberFormat(tag.value, { style: 'currency', currency: c.currency, maximumFractionDigits: 4 }).format(c.amount),
    /** A length of time, with at most two units. */
    duration(ms: number): string {
      const s = Math.max(0, ms) / 1000
      if (s < 10) return unit(Math.round(s * 10) / 10, 'second')
      const whole = Math.floor(s)
      if (whole < 60) return unit(whole, 'second')
      if (whole < 3600) return `${unit(Math.floor(whole / 60), 'minute')} ${unit(whole % 60, 'second')}`
      if (whole < 86_400) return `${unit(Math.floor(whole / 3600), 'hour')} ${unit(Math.floor((whole % 3600) / 60), 'minute')}`
      return `${unit(Math.floor(whole / 86_400), 'day')} ${unit(Math.floor((whole % 86_400) / 3600), 'hour')}`
    },
    time: (at: string) => new Intl.DateTimeFormat(tag.value, { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false }).format(new Date(at)),
    when(at: string): string {
      const d = new Date(at)
      const today = new Date().toDateString() === d.toDateString()
      return new Intl.DateTimeFormat(tag.value, today ? { hour: '2-digit', minute: '2-digit', hour12: false } : { dateStyle: 'medium', timeStyle: 'short' }).format(d)
    },
  }
}

export type Format = ReturnType<typeof useFormat>
