// Makes events as a session would tell them.
import type { AgentEvent, Kind } from '../src/model/event'

type DataOf<K extends Kind> = Extract<AgentEvent, { kind: K }>['data']

export function teller(session = 's') {
  let seq = 0
  return function tell<K extends Kind>(kind: K, run: string, data: DataOf<K>): AgentEvent {
    const at = new Date(Date.UTC(2026, 0, 1, 10, 0, ++seq)).toISOString()
    return { session, seq: kind === 'delta' ? undefined : seq, run_id: run, kind, at, data } as AgentEvent
  }
}

export const tokens = (n: number) => ({ prompt_tokens: n - 1, completion_tokens: 1, total_tokens: n })

export const click = (id: string) => ({ id, action: 'click', params: { selector: `[ref=${id}]` } })
