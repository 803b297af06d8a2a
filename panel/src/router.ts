import { createRouter, createWebHashHistory } from 'vue-router'
import AgentView from './views/AgentView.vue'

export function makeRouter() {
  return createRouter({
    // In the fragment: the same build lies at different addresses.
    history: createWebHashHistory(),
    routes: [
      { path: '/', name: 'agent', component: AgentView },
      { path: '/sessions', name: 'sessions', component: () => import('./views/SessionsView.vue') },
      { path: '/history', name: 'history', component: () => import('./views/HistoryView.vue') },
      { path: '/runs/:id', name: 'run', props: true, component: () => import('./views/RunView.vue') },
      { path: '/browsers', name: 'browsers', component: () => import('./views/BrowsersView.vue') },
      { path: '/browsers/:id', name: 'browser', props: true, component: () => import('./views/BrowsersView.vue') },
      { path: '/usage', name: 'usage', component: () => import('./views/UsageView.vue') },
      { path: '/settings', name: 'settings', component: () => import('./views/SettingsView.vue') },
      { path: '/:rest(.*)*', redirect: '/' },
    ],
    scrollBehavior: (_to, _from, saved) => saved ?? { top: 0 },
  })
}
