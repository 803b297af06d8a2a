// Programs that the tests start and end, and those of the stack that they
// stop, let go on, and kill. Linux only: it reads /proc.
import { execFileSync, spawn } from 'node:child_process'
import { createWriteStream, existsSync, linkSync, mkdirSync, readFileSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

/** A path beside this file. */
export const here = (p) => fileURLToPath(new URL(p, import.meta.url))
const root = here('../../..')
export const out = here('../out')
const bin = (name) => path.join(root, 'bin', name)

/** The environment without settings of a shell that reached another stack. */
export function cleanEnv() {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^SGCLAW_(?!CHROME|TEMPORAL$)/.test(name)))
}

/** A program; its output goes to out/log. */
export class Program {
  constructor(name, command, args, env) {
    this.name = name
    this.output = ''
    mkdirSync(path.join(out, 'log'), { recursive: true })
    const log = createWriteStream(path.join(out, 'log', `${name}.log`))
    this.child = spawn(command, args, { env, stdio: ['pipe', 'pipe', 'pipe'] })
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream.on('data', (data) => {
        this.output += data
        log.write(data)
        this.wake?.()
      })
    }
    this.ended = new Promise((resolve) => this.child.on('exit', (code, signal) => {
      this.code = code ?? signal
      this.wake?.()
      resolve()
    }))
  }

  /** Waits until the output has a match and returns it. */
  async says(pattern, ms = 90_000) {
    const until = Date.now() + ms
    for (;;) {
      const found = this.output.match(pattern)
      if (found) return found
      if (this.code !== undefined) throw new Error(`${this.name} ended with ${this.code}:\n${this.output}`)
      if (Date.now() > until) throw new Error(`${this.name} never said ${pattern}:\n${this.output}`)
      await new Promise((resolve) => {
        this.wake = resolve
        setTimeout(resolve, 1000).unref()
      })
    }
  }

  async end(signal = 'SIGINT') {
    if (this.code === undefined) this.child.kill(signal)
    const late = setTimeout(() => this.child.kill('SIGKILL'), 20_000)
    await this.ended
    clearTimeout(late)
  }
}

/** Tries until a condition holds. */
export async function until(what, condition, ms = 30_000) {
  const end = Date.now() + ms
  for (;;) {
    const value = await condition()
    if (value) return value
    if (Date.now() > end) throw new Error(`never came about: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** A port that nobody has at the moment. */
export function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.on('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })
}

/** The stack of `stack up`, with a data folder and ports of its own. */
export class Stack {
  static async start() {
    const s = new Stack()
    s.dir = path.join(out, 'stack')
    rmSync(s.dir, { recursive: true, force: true })
    // The programs at their own place: what is built meanwhile does not
    // matter, and one can be taken away.
    s.folder = path.join(out, 'bin')
    rmSync(s.folder, { recursive: true, force: true })
    mkdirSync(s.folder, { recursive: true })
    for (const name of ['stack', 'worker', 'gateway', 'pipehost', 'browserhost', 'starter']) linkSync(bin(name), s.bin(name))
    s.program = new Program('stack', s.bin('stack'), ['up', '--headless', '--dir', s.dir], cleanEnv())
    await s.program.says(/sgclaw runs\./, 120_000)
    s.env = { ...cleanEnv() }
    for (const [, name, value] of readFileSync(path.join(s.dir, 'env.sh'), 'utf8').matchAll(/^export (SGCLAW_\w+)='(.*)'$/gm)) s.env[name] = value
    s.url = s.env.SGCLAW_GATEWAY_URL
    s.token = s.env.SGCLAW_GATEWAY_TOKEN
    return s
  }

  bin(name) {
    return path.join(this.folder, name)
  }

  /** Process ids of a program that the stack runs, also by a program of it. */
  pids(name, parents = [this.program.child.pid]) {
    const found = []
    const children = readdirSync('/proc').filter((p) => /^\d+$/.test(p)).flatMap((pid) => {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
        return [{ pid: Number(pid), parent: Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) }]
      } catch {
        return []
      }
    })
    let level = parents
    while (level.length > 0) {
      const next = children.filter((c) => level.includes(c.parent)).map((c) => c.pid)
      for (const pid of next) {
        try {
          if (readlinkSync(`/proc/${pid}/exe`).replace(' (deleted)', '') === this.bin(name)) found.push(pid)
        } catch {
          // It has ended.
        }
      }
      level = next
    }
    return found
  }

  /** Runs starter and returns what it prints. */
  starter(...args) {
    return execFileSync(this.bin('starter'), args, { env: this.env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  }

  /** Makes a namespace of Temporal. */
  async namespace(name) {
    const temporal = process.env.SGCLAW_TEMPORAL ?? (existsSync(bin('temporal')) ? bin('temporal') : 'temporal')
    execFileSync(temporal, ['operator', 'namespace', 'create', '--address', this.env.SGCLAW_TEMPORAL_ADDRESS, '--namespace', name], { stdio: 'ignore' })
    // A server learns of a new one after a while.
    await until('the namespace is known', () => {
      try {
        execFileSync(temporal, ['workflow', 'list', '--address', this.env.SGCLAW_TEMPORAL_ADDRESS, '--namespace', name], { stdio: 'ignore' })
        return true
      } catch {
        return false
      }
    })
  }

  /** The id of the run under way whose task has a text. */
  openRun(text) {
    const runs = this.starter('list', '--active', '--json').trim().split('\n').map((line) => JSON.parse(line))
    const run = runs.flat().find((r) => JSON.stringify(r).includes(text))
    if (!run) throw new Error(`no run has ${text}: ${JSON.stringify(runs)}`)
    return run.run_id ?? run.id
  }

  signal(name, signal) {
    const pids = this.pids(name)
    if (pids.length === 0) throw new Error(`no ${name} runs`)
    for (const pid of pids) process.kill(pid, signal)
  }

  async healthy() {
    try {
      return (await fetch(`${this.url}/readyz`)).ok
    } catch {
      return false
    }
  }

  end() {
    return this.program.end()
  }
}

/** A line to a gateway that can be cut, as when a laptop's lid is closed. */
export class Line {
  static async open(url) {
    const l = new Line()
    const { hostname, port } = new URL(url)
    l.sockets = new Set()
    l.server = createServer((near) => {
      if (l.isCut) {
        near.destroy()
        return
      }
      const far = connect(Number(port), hostname)
      for (const [a, b] of [[near, far], [far, near]]) {
        l.sockets.add(a)
        a.pipe(b)
        a.on('error', () => {})
        a.on('close', () => {
          l.sockets.delete(a)
          b.destroy()
        })
      }
    })
    await new Promise((resolve) => l.server.listen(0, '127.0.0.1', resolve))
    l.url = `http://127.0.0.1:${l.server.address().port}`
    return l
  }

  cut() {
    this.isCut = true
    for (const s of this.sockets) s.destroy()
  }

  mend() {
    this.isCut = false
  }

  end() {
    this.cut()
    return new Promise((resolve) => this.server.close(resolve))
  }
}

let sites = 0

/** A fresh demo site. */
export class Site {
  static async start() {
    const s = new Site()
    s.program = new Program(`site-${++sites}`, bin('stack'), ['site', '--listen', '127.0.0.1:0'], cleanEnv())
    ;[, s.url] = await s.program.says(/listening on (http:\S+)/)
    return s
  }

  /** What was done to the requests, e.g. ["approve LR-2001"]. */
  async done() {
    const { entries } = await (await fetch(`${this.url}/ledger`)).json()
    return (entries ?? []).map((e) => `${e.action} ${e.id ?? ''}`.trim())
  }

  end() {
    return this.program.end()
  }
}

/** The system's Chromium, found as internal/chrome finds it. */
export function findChromium() {
  if (process.env.SGCLAW_CHROME) return process.env.SGCLAW_CHROME
  for (const name of ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable', 'microsoft-edge']) {
    for (const folder of (process.env.PATH ?? '').split(path.delimiter)) {
      if (existsSync(path.join(folder, name))) return path.join(folder, name)
    }
  }
  for (const file of ['/usr/bin/chromium', '/usr/lib/chromium/chromium', '/snap/bin/chromium', '/opt/google/chrome/chrome']) {
    if (existsSync(file)) return file
  }
  throw new Error('no Chrome or Chromium found; install one or set SGCLAW_CHROME to its path')
}

export const chromiumArgs = process.getuid?.() === 0 ? ['--no-sandbox'] : []
