// Figures of usage, added up by day and by model.

import type { UsageRow } from '../backend/backend'

export interface Figures {
  name: string
  runs: number
  succeeded: number
  failed: number
  aborted: number
  prompt: number
  completion: number
  total: number
  durationMs: number
  steps: number
}

function none(name: string): Figures {
  return { name, runs: 0, succeeded: 0, failed: 0, aborted: 0, prompt: 0, completion: 0, total: 0, durationMs: 0, steps: 0 }
}

function add(f: Figures, r: UsageRow): Figures {
  return {
    name: f.name, runs: f.runs + r.runs, succeeded: f.succeeded + r.succeeded, failed: f.failed + r.failed, aborted: f.aborted + r.aborted,
    prompt: f.prompt + r.usage.promptTokens, completion: f.completion + r.usage.completionTokens, total: f.total + r.usage.totalTokens,
    durationMs: f.durationMs + r.durationMs, steps: f.steps + r.steps,
  }
}

/** Adds up rows by what name says of them; known names come first, in order. */
export function sumBy(rows: readonly UsageRow[], name: (r: UsageRow) => string, known: readonly string[] = []): Figures[] {
  const sums = new Map(known.map((k) => [k, none(k)]))
  for (const r of rows) {
    const n = name(r)
    sums.set(n, add(sums.get(n) ?? none(n), r))
  }
  return [...sums.values()]
}

export function sum(rows: readonly UsageRow[]): Figures {
  return rows.reduce(add, none(''))
}

/** Runs that succeeded among those that were not stopped by a person, 0..1. */
export function successRate(f: Figures): number | undefined {
  const n = f.succeeded + f.failed
  return n > 0 ? f.succeeded / n : undefined
}

/** How long a run took on average, ms. */
export function averageMs(f: Figures): number | undefined {
  return f.runs > 0 ? f.durationMs / f.runs : undefined
}

/** The last n days up to a moment, "2006-01-02" in local time, oldest first. */
export function lastDays(n: number, now: Date): string[] {
  return Array.from({ length: n }, (_, i) => {
    const d = new Date(now.getFullYear(), now.getMonth(), now.getDate() - (n - 1 - i))
    return [d.getFullYear(), String(d.getMonth() + 1).padStart(2, '0'), String(d.getDate()).padStart(2, '0')].join('-')
  })
}
