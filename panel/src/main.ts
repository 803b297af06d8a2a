import { createApp, h } from 'vue'

createApp({ render: () => h('main', 'sgClaw') }).mount('#app')
