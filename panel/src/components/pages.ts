// A list that is read page by page, and again when what is looked for or the
// connection changes.
import { onScopeDispose, ref, shallowRef, watch } from 'vue'
import type { Ref, WatchSource } from 'vue'
import { useApp } from '../state/app'
import { useDescribe } from './describe'

const typingMs = 250

export function usePages<T>(read: (items: readonly T[]) => Promise<{ items: T[]; more: boolean }>, ...sources: WatchSource[]) {
  const app = useApp()
  const describe = useDescribe()
  const items: Ref<T[]> = shallowRef([])
  const more = ref(false)
  const failed = ref('')
  const loading = ref(false)
  let turn = 0
  let timer: ReturnType<typeof setTimeout> | undefined

  async function fetchPage(from: readonly T[]): Promise<void> {
    if (!app.backend.value?.records || !app.online.value) return
    const mine = ++turn
    loading.value = true
    failed.value = ''
    try {
      const page = await read(from)
      if (mine !== turn) return
      items.value = [...from, ...page.items]
      more.value = page.more
    } catch (err) {
      if (mine === turn) failed.value = describe.error(err)
    } finally {
      if (mine === turn) loading.value = false
    }
  }

  const load = () => fetchPage(items.value)
  const reload = () => fetchPage([])

  watch(sources, () => {
    clearTimeout(timer)
    timer = setTimeout(() => void reload(), typingMs)
  })
  watch(app.online, (on) => {
    if (on) void reload()
  }, { immediate: true })
  onScopeDispose(() => clearTimeout(timer))

  return { items, more, failed, loading, load, reload }
}
