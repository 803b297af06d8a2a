// Acting on elements: where to press, what a press would reach, and the guard
// that swallows a press that reaches something else.

function fromPoint(x, y) {
  let e = doc.elementFromPoint(x, y);
  while (e) {
    const root = shadowOf(e);
    const inner = root && root.elementFromPoint(x, y);
    if (!inner || inner === e) break;
    e = inner;
  }
  return e;
}

function describe(el) {
  const target = effective(el);
  const role = actRole(target);
  const name = nameOf(target, NAMED_BY_CONTENT.has(role) ? role : 'clickable');
  const cls = typeof el.className === 'string' && el.className ? '.' + el.className.trim().split(/\s+/).slice(0, 2).join('.') : '';
  const tag = el.tagName.toLowerCase() + (el.id ? '#' + el.id : cls);
  return name ? `${tag} ${quote(name, 60)}` : tag;
}

const CONTROL = 'a[href],area[href],button,input,select,textarea,summary,option';
const pointer = (el) => getComputedStyle(el).cursor === 'pointer';

// effective is the control that a press on el works on: the button around an
// icon, the field of a label. Without one, the outermost element under a
// pointing hand, else el itself.
function effective(el) {
  for (let e = el; e; e = parentOf(e)) {
    if (e.matches(CONTROL) || WIDGETS.has(explicitRole(e)) || editingHost(e)) return e;
    if (e.tagName === 'LABEL' && e.control) return e.control;
    if (e.hasAttribute('onclick') && e !== doc.body && e !== doc.documentElement) return e;
  }
  let best = el;
  if (pointer(el)) {
    for (let e = el; e && e !== doc.body && e !== doc.documentElement && pointer(e); e = parentOf(e)) best = e;
  }
  return best;
}

const submits = (el) => !!el.form && (el.tagName === 'BUTTON' ? el.type === 'submit' : el.tagName === 'INPUT' && (el.type === 'submit' || el.type === 'image'));

// identity is what a person would be asked about.
function identity(el, hit) {
  const role = actRole(el);
  let name = nameOf(el, role);
  // An icon inside a larger control says more than the control does.
  for (let e = within(el, hit) ? hit : null; e && e !== el; e = parentOf(e)) {
    const own = clean(e.getAttribute('aria-label') || e.getAttribute('title') || '');
    if (own && !name.includes(own)) name = cut(own + ' ' + name, 150);
  }
  const link = closest(el, 'a[href],area[href]');
  return {
    role,
    name: name || (role === 'icon' || role === 'clickable' || role === 'button' ? cut(clean(hintOf(el)), 60) : ''),
    context: contextOf(el),
    submit: submits(el),
    link: link ? String(link.href) : '',
  };
}

const same = (a, b) => a.role === b.role && a.name === b.name && a.context === b.context && a.submit === b.submit && a.link === b.link;

// surface is the element to press for el: a checkbox that the page hides is
// pressed by its label.
function surface(el) {
  if (visible(el) && getComputedStyle(el).opacity !== '0') return el;
  if (el.matches('input[type=checkbox],input[type=radio],input[type=file]') && el.labels) {
    const label = [...el.labels].find(visible);
    if (label) return label;
  }
  return el;
}

// aim finds a point on el where a press reaches it. Points that reach el's
// own control go before points on something else inside it.
function aim(el) {
  const own = effective(el);
  const rects = [...el.getClientRects()].filter((r) => r.width > 0 && r.height > 0);
  rects.sort((a, b) => b.width * b.height - a.width * a.height);
  if (!rects.length && el.firstElementChild) {
    const r = el.firstElementChild.getBoundingClientRect();
    if (r.width > 0 && r.height > 0) rects.push(r);
  }
  let second = null;
  let cover = null;
  let outside = true;
  for (const r of rects.slice(0, 3)) {
    const left = Math.max(r.left, 0);
    const top = Math.max(r.top, 0);
    const right = Math.min(r.right, innerWidth);
    const bottom = Math.min(r.bottom, innerHeight);
    if (right - left < 1 || bottom - top < 1) continue;
    outside = false;
    for (const [fx, fy] of [[0.5, 0.5], [0.25, 0.5], [0.75, 0.5], [0.5, 0.25], [0.5, 0.75], [0.15, 0.15], [0.85, 0.15], [0.15, 0.85], [0.85, 0.85]]) {
      const x = left + (right - left) * fx;
      const y = top + (bottom - top) * fy;
      const hit = fromPoint(x, y);
      if (!hit) continue;
      const target = effective(hit);
      if (within(el, hit) || within(own, hit) || target === own) {
        if (target === own) return { x, y, hit, target };
        if (!second) second = { x, y, hit, target };
        continue;
      }
      // The field of a home-made list lies under what the list shows.
      if (!second && el.matches(FIELD) && within(target, el) && !target.matches(CONTROL)) {
        second = { x, y, hit, target };
        continue;
      }
      if (!cover) cover = hit;
    }
  }
  if (second) return second;
  return { cover, outside };
}

function checked(id, strict) {
  const el = byId(id);
  if (!el) return { fault: { gone: true } };
  if (strict) {
    const changed = drift(id, el);
    if (changed) return { fault: { changed } };
  }
  return { el };
}

const edges = (el) => {
  const r = el.getBoundingClientRect();
  return [r.left, r.top, r.width, r.height];
};

// prepare brings an element into view and says where to press, or what
// stands in the way. It answers when the element has stood still.
handlers.prepare = async ({ id, strict }) => {
  const { el, fault } = checked(id, strict);
  if (!el) return fault;
  const face = surface(el);
  if (!visible(face)) return { reason: 'it is hidden' };
  if (disabled(el) || disabled(effective(el))) return { reason: 'it is disabled' };
  face.scrollIntoViewIfNeeded(true);
  let before = edges(face);
  let still = false;
  for (let i = 0; i < 3 && !still; i++) {
    await frame();
    const now = edges(face);
    still = now.every((v, k) => Math.abs(v - before[k]) < 0.5);
    before = now;
  }
  if (!el.isConnected) return { gone: true };
  if (!still) return { reason: 'it is moving' };
  return place(face);
};

function place(face) {
  const at = aim(face);
  if (!at.hit) {
    if (at.outside) return { reason: 'it cannot be scrolled into view' };
    return { reason: at.cover ? `it is covered by ${describe(at.cover)}` : 'nothing can be pressed there', covered: true };
  }
  if (disabled(at.target)) return { reason: `${describe(at.target)} is disabled` };
  return { x: at.x, y: at.y, target: identity(at.target, at.hit), rect: edges(at.target) };
}

// look says what a press would reach now, with the mouse where it is.
handlers.look = async ({ id, strict }) => {
  await frame();
  const { el, fault } = checked(id, strict);
  if (!el) return fault;
  const face = surface(el);
  if (!visible(face)) return { reason: 'it is hidden' };
  return place(face);
};

let guard = null;
const PRESS = ['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'click', 'dblclick', 'auxclick', 'contextmenu', 'touchstart', 'touchend'];
const KEYS = ['keydown', 'keypress', 'beforeinput'];

function swallow(e) {
  e.preventDefault();
  e.stopImmediatePropagation();
}

function onPress(e) {
  if (!guard || !e.isTrusted) return;
  const hit = e.composedPath()[0];
  if (guard.state === undefined) {
    const target = hit instanceof Element ? effective(hit) : null;
    const right = guard.target && guard.target.isConnected && target &&
      (target === guard.target || within(guard.target, hit) || within(hit, guard.target) && !!shadowOf(hit)) &&
      nameOf(guard.target, guard.role) === guard.name;
    guard.state = right ? 'passed' : 'swallowed';
    if (!right) guard.hit = hit instanceof Element ? describe(hit) : 'the page';
  }
  if (guard.state === 'swallowed') swallow(e);
}

function onKey(e) {
  if (!guard || !e.isTrusted) return;
  const hit = e.composedPath()[0];
  const right = guard.target && hit instanceof Node && (within(guard.target, hit) || within(hit, guard.target) && hit instanceof Element && !!shadowOf(hit));
  if (right) {
    if (!guard.state) guard.state = 'passed';
    return;
  }
  // Where Enter or Tab took the focus, nothing more must be typed either.
  if (guard.state !== 'passed' || !guard.last) {
    guard.state = 'swallowed';
    guard.hit = hit instanceof Element ? describe(hit) : 'the page';
  }
  swallow(e);
}

function arm(g, events, fn) {
  disarm();
  guard = g;
  guard.off = () => events.forEach((t) => window.removeEventListener(t, fn, true));
  events.forEach((t) => window.addEventListener(t, fn, { capture: true, passive: false }));
  // If Go never comes back, the person at the browser must be able to press.
  guard.timer = setTimeout(disarm, 5000);
}

function disarm() {
  const g = guard;
  guard = null;
  if (!g) return {};
  clearTimeout(g.timer);
  g.off();
  return { state: g.state || 'unseen', hit: g.hit || '' };
}

// armFrame guards a frame around the one that is pressed in: no press may
// reach it at all.
function armFrame() {
  arm({ target: null }, PRESS, onPress);
}

handlers.disarm = () => disarm();

// peek says what a key guard has seen so far, before the last key.
handlers.peek = () => {
  const seen = { state: (guard && guard.state) || '', hit: (guard && guard.hit) || '' };
  if (guard) {
    guard.state = undefined;
    guard.last = true;
  }
  return seen;
};

// arm checks once more that the element is what it was, that a press reaches
// it, and guards the press. `expect` is the identity that was inspected.
handlers.arm = async ({ id, strict, expect, url, atOnce }) => {
  if (!atOnce) await frame();
  const { el, fault } = checked(id, strict);
  if (!el) return fault;
  if (url && location.href !== url) return { changed: 'the page went elsewhere' };
  const face = surface(el);
  if (!visible(face)) return { reason: 'it is hidden' };
  if (disabled(el) || disabled(effective(el))) return { reason: 'it is disabled' };
  face.scrollIntoViewIfNeeded(true);
  const at = aim(face);
  if (!at.hit) return place(face);
  const now = identity(at.target, at.hit);
  if (expect && !same(now, expect)) return { other: true, target: now, x: at.x, y: at.y };
  arm({ target: at.target, role: now.role, name: nameOf(at.target, now.role) }, PRESS, onPress);
  return { x: at.x, y: at.y, target: now };
};
