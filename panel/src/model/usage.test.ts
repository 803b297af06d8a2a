import { expect, test } from 'vitest'
import type { UsageRow } from '../backend/backend'
import { averageMs, lastDays, successRate, sum, sumBy } from './usage'

const row = (day: string, model: string, more: Partial<UsageRow> = {}): UsageRow => ({
  day, model, agent: 'main', browser: 'b', runs: 2, succeeded: 1, failed: 0, aborted: 1, steps: 4, durationMs: 4000,
  usage: { promptTokens: 10, completionTokens: 5, totalTokens: 15 }, ...more,
})

test('adds up by day, with the days on which nothing was', () => {
  const days = ['2026-01-01', '2026-01-02', '2026-01-03']
  const sums = sumBy([row('2026-01-03', 'a'), row('2026-01-01', 'a'), row('2026-01-03', 'b')], (r) => r.day, days)
  expect(sums.map((f) => [f.name, f.runs, f.total])).toEqual([['2026-01-01', 2, 15], ['2026-01-02', 0, 0], ['2026-01-03', 4, 30]])
})

test('runs that people stopped count for neither side', () => {
  expect(successRate(sum([row('d', 'a'), row('d', 'a', { succeeded: 0, failed: 3, aborted: 0 })]))).toBe(0.25)
  expect(successRate(sum([row('d', 'a', { succeeded: 0 })]))).toBeUndefined()
  expect(averageMs(sum([row('d', 'a')]))).toBe(2000)
  expect(averageMs(sum([]))).toBeUndefined()
})

test('days go over the ends of months', () => {
  expect(lastDays(3, new Date(2026, 2, 1, 23, 59))).toEqual(['2026-02-27', '2026-02-28', '2026-03-01'])
})
