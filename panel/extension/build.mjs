// Puts the extension together from the panel's build and what lies here:
// `npm run build:extension` in panel/. The result, panel/extension/dist, is
// loaded unpacked.
import { cpSync, existsSync, readFileSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const here = (path) => fileURLToPath(new URL(path, import.meta.url))

if (!existsSync(here('../dist/index.html'))) {
  console.error('the panel is not built: run `npm run build` in panel/ first')
  process.exit(1)
}
// Extensions must not have inline scripts; their pages would silently lack them.
if (/<script(?![^>]*\bsrc=)/.test(readFileSync(here('../dist/index.html'), 'utf8'))) {
  console.error('dist/index.html has an inline script, which extensions may not have')
  process.exit(1)
}
rmSync(here('dist'), { recursive: true, force: true })
cpSync(here('../dist'), here('dist'), { recursive: true, filter: (file) => !file.endsWith('.gitkeep') })
for (const part of ['manifest.json', 'background.js', 'icons', '_locales']) {
  cpSync(here(part), here(`dist/${part}`), { recursive: true })
}
console.log(here('dist'))
