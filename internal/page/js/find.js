// Finding elements by selector.

function queryAll(root, selector) {
  const found = [...root.querySelectorAll(selector)];
  if (found.length) return found;
  const out = [];
  const visit = (r) => {
    for (const e of r.querySelectorAll('*')) {
      const shadow = shadowOf(e);
      if (!shadow) continue;
      out.push(...shadow.querySelectorAll(selector));
      visit(shadow);
    }
  };
  visit(root);
  return out;
}

function pick(list) {
  return list.find(visible) || list[0];
}

// find looks for parts[from...] and stops at an iframe, which another frame's
// library has to enter.
handlers.find = ({ parts, from = 0, mustShow = false }) => {
  let root = doc;
  for (let i = from; i < parts.length; i++) {
    let list;
    try {
      list = queryAll(root, parts[i]);
    } catch (e) {
      return { invalid: e.message };
    }
    const el = pick(list);
    if (!el) return { matched: 0 };
    if (i === parts.length - 1) {
      if (mustShow && !visible(el)) return { matched: 0, hidden: list.length };
      return { matched: list.length, id: idOf(el) };
    }
    if (el.tagName === 'IFRAME' || el.tagName === 'FRAME') return { matched: list.length, id: idOf(el), next: i + 1 };
    root = shadowOf(el);
    if (!root) return { matched: 0, closed: list.length };
  }
  return { matched: 0 };
};

// near names elements that a selector without a match may have meant.
handlers.near = ({ selector }) => {
  const words = (selector.toLowerCase().match(/[a-z0-9_\u0080-\uffff]+/g) || []).filter((w) => w.length > 1);
  const rated = [];
  const visit = (root) => {
    for (const e of root.querySelectorAll('*')) {
      const shadow = shadowOf(e);
      if (shadow) visit(shadow);
      if (rated.length > 2000 || !e.matches('a[href],button,input,select,textarea,summary,[role],[onclick],[contenteditable],[tabindex]') || !visible(e)) continue;
      const role = actRole(e);
      if (!WIDGETS.has(role) && role !== 'clickable') continue;
      const own = [e.id, e.className, e.getAttribute('name'), e.type, e.tagName, role, nameOf(e, role)].join(' ').toLowerCase();
      let score = 0;
      for (const w of words) if (own.includes(w)) score += w.length;
      rated.push({ e, role, score });
    }
  };
  visit(doc);
  rated.sort((a, b) => b.score - a.score);
  return rated.slice(0, 5).map(({ e, role }) => {
    const name = nameOf(e, role);
    return { text: `${role} ${name ? quote(name, 40) : '(' + cut(clean(hintOf(e)), 30) + ')'}`, id: remember(e, role, name) };
  });
};

// resolve says what became of an id that was shown before.
handlers.resolve = ({ id }) => {
  const el = byId(id);
  if (!el) return { gone: true };
  return known.get(id).retired ? { changed: drift(id, el) } : {};
};

handlers.visible = ({ id }) => {
  const el = byId(id);
  return { visible: !!el && visible(el) };
};

// Frames: which iframe elements there are is asked by object, so that Go can
// have them described.
handlers.object = ({ id }) => byId(id);

handlers.closed = ({ id, root }) => {
  const el = byId(id);
  if (el && root) closedRoots.set(el, root);
};

// box is where the content of an iframe element lies in this frame's
// viewport, and how it is scaled.
function contentBox(el) {
  const r = el.getBoundingClientRect();
  const cs = getComputedStyle(el);
  const kx = el.offsetWidth ? r.width / el.offsetWidth : 1;
  const ky = el.offsetHeight ? r.height / el.offsetHeight : 1;
  return {
    x: r.left + (el.clientLeft + parseFloat(cs.paddingLeft)) * kx,
    y: r.top + (el.clientTop + parseFloat(cs.paddingTop)) * ky,
    kx, ky,
  };
}

handlers.reveal = ({ id }) => {
  const el = byId(id);
  if (!el) return { gone: true };
  el.scrollIntoViewIfNeeded(true);
  return {};
};

// through maps a point of a child frame into this frame, scrolls so that it
// can be seen, and checks that nothing covers the frame there.
handlers.through = ({ id, x, y, guard }) => {
  const el = byId(id);
  if (!el) return { gone: true };
  let box = contentBox(el);
  let px = box.x + x * box.kx;
  let py = box.y + y * box.ky;
  if (px < 0 || py < 0 || px >= innerWidth || py >= innerHeight) {
    window.scrollBy({ left: px - innerWidth / 2, top: py - innerHeight / 2, behavior: 'instant' });
    box = contentBox(el);
    px = box.x + x * box.kx;
    py = box.y + y * box.ky;
  }
  const hit = fromPoint(px, py);
  if (hit !== el) return { x: px, y: py, cover: hit ? describe(hit) : 'nothing' };
  if (guard) armFrame();
  return { x: px, y: py };
};
