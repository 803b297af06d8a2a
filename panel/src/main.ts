import { createApp } from 'vue'
import App from './App.vue'
import { BridgeBackend } from './backend/bridge'
import { GatewayBackend } from './backend/gateway'
import { findGateway } from './backend/settings'
import { makeI18n } from './i18n'
import { makeRouter } from './router'
import { appKey, makeApp } from './state/app'
import type { Found } from './state/app'
import { makePrefs } from './state/prefs'
import './styles/app.css'

const version = '1.0.0'

async function main(): Promise<void> {
  // Before anything else: the first address may hold a token.
  if (!window.sgFunctionsUI) await findGateway()
  const prefs = await makePrefs()

  async function find(): Promise<Found> {
    if (window.sgFunctionsUI) return { backend: new BridgeBackend(window.sgFunctionsUI), where: { address: '', url: '', token: '' } }
    const where = await findGateway()
    if (!where.token) return { where }
    return { where, backend: new GatewayBackend({ url: where.url, token: where.token, locale: prefs.shownLang.value, version }) }
  }

  const app = makeApp(prefs, find)
  createApp(App).use(makeI18n(prefs.shownLang.value)).use(makeRouter()).provide(appKey, app).mount('#app')
  await app.start()
}

void main()
