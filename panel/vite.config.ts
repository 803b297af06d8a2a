import vue from '@vitejs/plugin-vue'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  plugins: [vue()],
  // The same build is a page at the gateway's root, a page of an extension,
  // and a page of a browser host: nothing may depend on where it lies.
  base: './',
  build: {
    target: 'es2022',
    // The gateway's content security policy allows no inline scripts and no
    // data: modules.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 700,
  },
  server: {
    // The gateway lets pages of this machine in that come from its own origin.
    proxy: { '/ws': { target: process.env.SGCLAW_GATEWAY_URL ?? 'http://127.0.0.1:18789', ws: true, changeOrigin: true, headers: { origin: process.env.SGCLAW_GATEWAY_URL ?? 'http://127.0.0.1:18789' } } },
  },
  test: {
    environment: 'happy-dom',
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    restoreMocks: true,
  },
})
