// How actions and errors are called.
import { useI18n } from 'vue-i18n'
import { RequestError } from '../backend/backend'

export function useDescribe() {
  const { t, te } = useI18n()

  function action(name: string): string {
    return te(`action.${name}`, 'en') ? t(`action.${name}`) : name
  }

  function outcome(name: string | undefined): string {
    return te(`outcome.${name}`, 'en') ? t(`outcome.${name}`) : (name ?? t('outcome.pending'))
  }

  function error(err: unknown): string {
    if (err instanceof RequestError && te(`error.${err.code}`, 'en')) return t(`error.${err.code}`)
    return t('error.other', { message: err instanceof Error ? err.message : String(err) })
  }

  /** Why a run ended without success, and what to do next. */
  function reason(code: string, status: string): { what: string; next: string } {
    const key = te(`reason.${code}.what`, 'en') ? code : status === 'refused' ? 'refused' : status === 'aborted' ? 'ABORTED' : 'other'
    return { what: t(`reason.${key}.what`), next: t(`reason.${key}.next`) }
  }

  return { action, outcome, error, reason }
}
