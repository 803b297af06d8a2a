// A run as the gateway's record has it, as a RunState.

import type { RunDetail, RunInfo, StepInfo, Usage } from '../backend/backend'
import type { Tokens } from './event'
import type { RunState, Step } from './run'
import { emptyRun } from './run'

function toTokens(u: Usage | undefined): Tokens {
  return { prompt_tokens: u?.promptTokens ?? 0, completion_tokens: u?.completionTokens ?? 0, total_tokens: u?.totalTokens ?? 0 }
}

/** What a list of runs has: everything but the steps. */
export function fromInfo(i: RunInfo): RunState {
  const models = Object.entries(i.models ?? {}).map(([name, u]) => [name, toTokens(u)] as const)
  return {
    ...emptyRun(i.runId, i.sessionKey),
    task: i.task, browser: i.browser, agent: i.agent, status: i.status, reason: i.reason, summary: i.summary,
    createdAt: i.createdAt, startedAt: i.startedAt, endedAt: i.endedAt, statusAt: i.endedAt ?? i.startedAt ?? i.createdAt,
    durationMs: i.startedAt && i.endedAt ? Date.parse(i.endedAt) - Date.parse(i.startedAt) : undefined,
    tokens: toTokens(i.usage), models: Object.fromEntries(models), cost: i.cost, maxSteps: i.maxSteps,
  }
}

export function fromDetail(d: RunDetail): RunState {
  return { ...fromInfo(d.run), steps: toSteps(d.steps), question: d.open, whole: true }
}

function toSteps(infos: StepInfo[]): Step[] {
  const steps = new Map<number, Step>()
  const sorted = [...infos].sort((a, b) => a.step - b.step || a.index - b.index)
  for (const i of sorted) {
    const step = steps.get(i.step) ?? { num: i.step, thinking: '', actions: [] }
    if (i.thinking) step.thinking = i.thinking
    if (i.action) {
      step.actions.push({
        id: '', action: i.action, params: i.params, outcome: i.outcome || undefined, code: i.code || undefined, observation: i.observation || undefined,
        page: i.pageUrl ? { url: i.pageUrl } : undefined, durationMs: i.durationMs, hasImage: i.hasImage,
      })
    }
    steps.set(i.step, step)
  }
  return [...steps.values()]
}
