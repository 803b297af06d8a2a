import { flushPromises, mount } from '@vue/test-utils'
import { afterEach, expect, test } from 'vitest'
import { makeI18n } from '../i18n'
import AskDialog from './AskDialog.vue'

afterEach(() => void (document.body.innerHTML = ''))

async function open(slot = '') {
  const wrapper = mount(AskDialog, {
    props: { open: true, title: 'Stop?', text: 'Really', go: 'Stop' }, slots: { default: slot }, attachTo: document.body, global: { plugins: [makeI18n('en')] },
  })
  await flushPromises()
  return wrapper
}

test('Enter does not do by accident what is asked about', async () => {
  await open()
  expect(document.activeElement?.textContent).toBe('Cancel')
})

test('where there is something to fill in, that comes first', async () => {
  await open('<textarea></textarea>')
  expect(document.activeElement).toBeInstanceOf(HTMLTextAreaElement)
})

test('says what it is about, to whoever hears it', async () => {
  const wrapper = await open()
  const dialog = document.querySelector('[role=alertdialog]')!
  const of = (name: string) => document.getElementById(dialog.getAttribute(name) ?? '')?.textContent
  expect(of('aria-labelledby')).toBe('Stop?')
  expect(of('aria-describedby')).toBe('Really')
  document.querySelector<HTMLElement>('[data-testid=dialog-go]')!.click()
  expect(wrapper.emitted('go')).toHaveLength(1)
})
