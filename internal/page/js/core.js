// The library runs in an isolated world of every frame: it shares the DOM
// with the page and nothing else. page.go wraps the files into one function
// whose `handlers` are what Go can call.

const installed = globalThis.sgclaw;
if (installed && installed.doc === document) return installed.token;

const handlers = {};
const doc = document;
const token = Math.random().toString(36).slice(2) + Date.now().toString(36);

// Elements get a number in the order in which they are first named to Go.
// Go maps the numbers of all frames to refs.
const ids = new WeakMap();
const known = new Map(); // id -> {el: WeakRef, role, name, row}, as last shown
let nextId = 1;

// Closed shadow roots, as Go found them.
const closedRoots = new WeakMap();
const examined = new WeakSet();

function idOf(el) {
  let id = ids.get(el);
  if (!id) {
    id = nextId++;
    ids.set(el, id);
    known.set(id, { el: new WeakRef(el) });
    if (id % 5000 === 0) for (const [k, v] of known) if (!v.el.deref()) known.delete(k);
  }
  return id;
}

function byId(id) {
  const entry = known.get(id);
  const el = entry && entry.el.deref();
  return el && el.isConnected && el.ownerDocument === document ? el : null;
}

const shadowOf = (el) => el.shadowRoot || closedRoots.get(el) || null;

function parentOf(el) {
  if (el.assignedSlot) return el.assignedSlot;
  if (el.parentElement) return el.parentElement;
  const root = el.getRootNode();
  return root instanceof ShadowRoot ? root.host : null;
}

function within(outer, inner) {
  for (let n = inner; n; ) {
    if (n === outer) return true;
    n = n.parentNode || (n instanceof ShadowRoot ? n.host : null);
  }
  return false;
}

// closest is Element.closest through shadow roots.
function closest(el, selector) {
  for (let e = el; e; e = parentOf(e)) if (e.matches(selector)) return e;
  return null;
}

const INVISIBLE = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ue000-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffc]|[\u{e0000}-\u{e0fff}\u{f0000}-\u{10ffff}]/gu;

// clean makes one line of page text: nothing invisible, nothing that could
// be taken for a ref.
function clean(s) {
  return s.replace(INVISIBLE, '').replace(/\s+/g, ' ').replace(/\[\s*ref\s*=/gi, '(ref=').trim();
}

const cut = (s, n) => (s.length > n ? s.slice(0, n - 1) + '…' : s);
const quote = (s, n) => '"' + cut(s.replace(/"/g, "'"), n) + '"';

const SKIP = new Set(['SCRIPT', 'STYLE', 'NOSCRIPT', 'TEMPLATE', 'HEAD', 'META', 'LINK', 'TITLE', 'BASE', 'DATALIST', 'PARAM', 'SOURCE', 'TRACK']);

// shown tells an element with a box; "contents" has none but its children do.
function shown(el) {
  if (el.checkVisibility()) return true;
  return el.isConnected && getComputedStyle(el).display === 'contents';
}

function visible(el) {
  if (!el.checkVisibility({ visibilityProperty: true })) return false;
  for (const r of el.getClientRects()) if (r.width > 0 && r.height > 0) return true;
  return false;
}

// textOf is the visible text in el, with what images and icons are called.
// Fields and lists of options are not text.
function textOf(el, most) {
  let out = '';
  const visit = (node) => {
    if (out.length > most * 2) return;
    for (const n of node.childNodes) {
      if (n.nodeType === Node.TEXT_NODE) {
        out += n.data;
        continue;
      }
      if (n.nodeType !== Node.ELEMENT_NODE || SKIP.has(n.tagName) || !shown(n)) continue;
      switch (n.tagName) {
        case 'SELECT':
        case 'TEXTAREA':
        case 'INPUT':
          if (n.type === 'submit' || n.type === 'button') out += ' ' + n.value + ' ';
          continue;
        case 'IMG':
          out += ' ' + (n.alt || n.title || '') + ' ';
          continue;
        case 'BR':
          out += ' ';
          continue;
        case 'svg': {
          const t = n.querySelector(':scope > title');
          out += ' ' + (n.getAttribute('aria-label') || (t && t.textContent) || '') + ' ';
          continue;
        }
        case 'SLOT': {
          const list = n.assignedNodes({ flatten: true });
          if (list.length) {
            visit({ childNodes: list });
            continue;
          }
        }
      }
      const inline = getComputedStyle(n).display.startsWith('inline');
      if (!inline) out += ' ';
      visit(shadowOf(n) || n);
      if (!inline) out += ' ';
    }
  };
  visit(shadowOf(el) || el);
  return cut(clean(out), most);
}

const INPUT_ROLES = {
  button: 'button', submit: 'button', reset: 'button', image: 'button', checkbox: 'checkbox', radio: 'radio',
  range: 'slider', number: 'spinbutton', search: 'searchbox', file: 'file', color: 'color',
};
const TAG_ROLES = {
  BUTTON: 'button', SUMMARY: 'button', TEXTAREA: 'textbox', OPTION: 'option', UL: 'list', OL: 'list', LI: 'listitem',
  TABLE: 'table', TR: 'row', TD: 'cell', TH: 'columnheader', NAV: 'navigation', MAIN: 'main', ASIDE: 'complementary',
  HEADER: 'banner', FOOTER: 'contentinfo', FORM: 'form', DIALOG: 'dialog', IMG: 'img', svg: 'img', FIELDSET: 'group',
  IFRAME: 'iframe', FRAME: 'iframe', PROGRESS: 'progressbar', METER: 'meter', ARTICLE: 'article', LABEL: 'label',
  H1: 'heading', H2: 'heading', H3: 'heading', H4: 'heading', H5: 'heading', H6: 'heading', P: 'paragraph',
};
const WIDGETS = new Set(['button', 'link', 'textbox', 'searchbox', 'checkbox', 'radio', 'combobox', 'listbox', 'option',
  'menuitem', 'menuitemcheckbox', 'menuitemradio', 'tab', 'switch', 'slider', 'spinbutton', 'treeitem', 'file', 'color']);
const NAMED_BY_CONTENT = new Set(['button', 'link', 'option', 'menuitem', 'menuitemcheckbox', 'menuitemradio', 'tab',
  'checkbox', 'radio', 'switch', 'treeitem', 'heading', 'clickable', 'icon', 'cell', 'columnheader', 'rowheader', 'row', 'listitem']);

function explicitRole(el) {
  const r = el.getAttribute('role');
  if (!r) return '';
  const first = r.trim().split(/\s+/)[0].toLowerCase();
  return first === 'none' || first === 'presentation' ? '' : first;
}

const editingHost = (el) => el.isContentEditable && !(el.parentElement && el.parentElement.isContentEditable);

function roleOf(el) {
  const role = explicitRole(el);
  if (role) return role;
  switch (el.tagName) {
    case 'A':
    case 'AREA':
      return el.hasAttribute('href') ? 'link' : 'generic';
    case 'INPUT':
      if (el.list && !INPUT_ROLES[el.type]) return 'combobox';
      return INPUT_ROLES[el.type] || 'textbox';
    case 'SELECT':
      return el.multiple || el.size > 1 ? 'listbox' : 'combobox';
    case 'SUMMARY':
      return el.parentElement && el.parentElement.tagName === 'DETAILS' ? 'button' : 'generic';
  }
  if (editingHost(el)) return 'textbox';
  return TAG_ROLES[el.tagName] || 'generic';
}

// actRole is the role under which an element is shown when it can be acted
// on.
function actRole(el) {
  const role = roleOf(el);
  if (WIDGETS.has(role)) return role;
  if (el.tagName === 'svg' || el.tagName === 'I' || (el.tagName !== 'IMG' && !el.childElementCount && !el.textContent.trim())) return 'icon';
  return role === 'row' || role === 'listitem' || role === 'cell' ? role : 'clickable';
}

function textOfIds(el, attr) {
  const list = (el.getAttribute(attr) || '').trim();
  if (!list) return '';
  const root = el.getRootNode();
  return clean(list.split(/\s+/).map((id) => {
    const e = root.getElementById ? root.getElementById(id) : doc.getElementById(id);
    return e ? e.textContent.slice(0, 300) : '';
  }).join(' '));
}

// hintOf describes an element that has no name.
function hintOf(el) {
  const use = el.tagName === 'svg' ? el.querySelector('use') : el.querySelector && el.querySelector('svg use');
  const href = use && (use.getAttribute('href') || use.getAttribute('xlink:href'));
  const made = (s) => !s || /\d{3}/.test(s) || /\d-\d/.test(s); // by a program, for itself
  const id = made(el.id) ? '' : el.id;
  if (el.matches('input,select,textarea')) return el.name || id;
  const hint = el.getAttribute('data-icon') || (href && href.replace(/^.*#/, '')) || id ||
    (el.getAttribute('class') || '').trim().split(/\s+/).slice(0, 3).join(' ');
  if (hint) return hint;
  const inner = el.querySelector && el.querySelector('[class]');
  return inner ? (inner.getAttribute('class') || '').trim().split(/\s+/).slice(0, 3).join(' ') : '';
}

// beside is the short text before a field that nothing labels.
function beside(el) {
  for (let e = el, up = 0; e && up < 3; e = e.parentElement, up++) {
    for (let s = e.previousSibling; s; s = s.previousSibling) {
      if (s.nodeType === Node.TEXT_NODE) {
        const t = clean(s.data);
        if (t) return t.length <= 40 ? t : '';
        continue;
      }
      if (s.nodeType !== Node.ELEMENT_NODE || SKIP.has(s.tagName) || !shown(s)) continue;
      if (s.matches('input,select,textarea,button,form,table') || s.querySelector('input,select,textarea,button')) return '';
      const t = textOf(s, 60);
      if (t) return t.length <= 40 ? t : '';
    }
    if (e.parentElement && e.parentElement.matches('form,body,tr,table,section,main')) break;
  }
  return '';
}

const FIELD = 'input,select,textarea,[contenteditable]';

function nameOf(el, role) {
  role = role || actRole(el);
  let name = textOfIds(el, 'aria-labelledby') || clean(el.getAttribute('aria-label') || '');
  if (name) return cut(name, 150);
  switch (el.tagName) {
    case 'INPUT':
      if (el.type === 'image') return cut(clean(el.alt || el.title || 'submit'), 150);
      if (el.type === 'submit' || el.type === 'reset' || el.type === 'button')
        return cut(clean(el.value || el.title || (el.type === 'button' ? '' : el.type)), 150);
    // falls through
    case 'SELECT':
    case 'TEXTAREA': {
      const labels = el.labels ? [...el.labels].map((l) => textOf(l, 150)).filter(Boolean).join(' ') : '';
      name = labels || clean(el.title || '') || clean(el.getAttribute('placeholder') || '') || beside(el);
      return cut(name, 150);
    }
    case 'IMG':
    case 'AREA':
      name = clean(el.alt || el.title || '');
      if (name || el.tagName === 'IMG') return cut(name, 150);
      break;
    case 'FIELDSET': {
      const l = el.querySelector(':scope > legend');
      return l ? textOf(l, 150) : '';
    }
    case 'TABLE':
      return el.caption ? textOf(el.caption, 150) : '';
    case 'IFRAME':
    case 'FRAME':
      return cut(clean(el.title || el.name || ''), 150);
  }
  if (NAMED_BY_CONTENT.has(role)) name = textOf(el, 150);
  if (!name) name = clean(el.getAttribute('title') || el.getAttribute('placeholder') || el.getAttribute('aria-placeholder') || el.getAttribute('data-placeholder') || '');
  if (!name && (role === 'textbox' || role === 'combobox')) name = beside(el);
  return cut(name, 150);
}

const ROW = 'tr,[role=row],li,[role=listitem],[role=treeitem],article,[role=article]';
const alike = (a, b) => b && a.tagName === b.tagName && a.className === b.className;

// rowOf is the item of a table or list that el is part of: what a person
// would say the element is about.
function rowOf(el) {
  const row = closest(el, ROW);
  if (row) return row;
  if (el.matches(FIELD)) return null;
  let e = el;
  for (let up = 0; up < 6; up++) {
    const p = parentOf(e);
    if (!p || p === doc.body) return null;
    if (e !== el && e.className && typeof e.className === 'string' && (alike(e, e.nextElementSibling) || alike(e, e.previousElementSibling)) &&
      e.textContent.length < 600) return e;
    e = p;
  }
  return null;
}

// rowKey is the row's text as an identity, one line per piece of text: typing
// doesn't change it, another record in the same node does.
function rowKey(row, cache) {
  if (!row) return '';
  let key = cache && cache.get(row);
  if (key === undefined) {
    let s = '';
    const walker = doc.createTreeWalker(row, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT, (n) => {
      if (n.nodeType === Node.TEXT_NODE) return NodeFilter.FILTER_ACCEPT;
      return SKIP.has(n.tagName) || n.tagName === 'SELECT' || n.tagName === 'TEXTAREA' ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_SKIP;
    });
    while (s.length < 400 && walker.nextNode()) {
      const piece = walker.currentNode.data.replace(/\s+/g, ' ').trim();
      if (piece) s += piece + '\n';
    }
    key = s;
    if (cache) cache.set(row, key);
  }
  return key;
}

// contextOf is what a person is shown beside the name of a control.
function contextOf(el) {
  const place = rowOf(el) || closest(el, 'form,fieldset,dialog,[role=dialog],[role=alertdialog],[role=form]');
  return place ? textOf(place, 200) : '';
}

// remember notes what an element looks like when it is shown, so that a ref
// that would now mean something else can be refused. An element that has
// come to mean something else since it was last shown, as the rows of a list
// that is patched in place, gets another number: whoever still holds the old
// one means what it was.
function remember(el, role, name, cache) {
  let id = idOf(el);
  let entry = known.get(id);
  const row = rowKey(rowOf(el), cache);
  if (entry.role !== undefined && (entry.role !== role || entry.name !== name || !sameRow(entry.row, row))) {
    entry.retired = true;
    ids.delete(el);
    id = idOf(el);
    entry = known.get(id);
  }
  entry.role = role;
  entry.name = name;
  entry.row = row;
  return id;
}

// sameRow allows a row to have gained text, as rows do that show more under
// the mouse, but not to have lost or changed any.
function sameRow(was, now) {
  if (was === now) return true;
  const rest = now.split('\n');
  let at = 0;
  for (const piece of was.split('\n')) {
    if (!piece) continue;
    while (at < rest.length && rest[at] !== piece) at++;
    // What was cut off at the end of a long row says nothing.
    if (at++ >= rest.length) return was.length >= 400 && now.length >= 400 && was.indexOf(piece) > 300;
  }
  return true;
}

// drift says how an element differs from what was shown, or ''.
function drift(id, el) {
  const was = known.get(id);
  if (!was || was.role === undefined) return '';
  if (was.retired) return `it was ${was.role} "${was.name}" of something else`;
  const role = actRole(el);
  if (role !== was.role) return `it was ${was.role} "${was.name}" and is now ${role}`;
  const name = nameOf(el, role);
  if (name !== was.name) return `it was called "${was.name}" and is now "${name}"`;
  if (!sameRow(was.row, rowKey(rowOf(el)))) return `the row around it now reads "${contextOf(el)}"`;
  return '';
}

function activeElement() {
  let e = doc.activeElement;
  while (e) {
    const root = shadowOf(e);
    if (!root || !root.activeElement) break;
    e = root.activeElement;
  }
  return e;
}

function disabled(el) {
  return el.matches(':disabled') || !!closest(el, '[aria-disabled="true"],[inert]');
}

function statesOf(el, role) {
  const s = [];
  const aria = (n) => el.getAttribute('aria-' + n);
  if (disabled(el)) s.push('disabled');
  const checkable = el.tagName === 'INPUT' && (el.type === 'checkbox' || el.type === 'radio');
  if (checkable ? el.indeterminate : aria('checked') === 'mixed') s.push('mixed');
  else if (checkable ? el.checked : aria('checked') === 'true') s.push('checked');
  if (aria('selected') === 'true') s.push('selected');
  if (aria('pressed') === 'true') s.push('pressed');
  if (aria('current') && aria('current') !== 'false') s.push('current');
  const exp = el.tagName === 'SUMMARY' ? String(el.parentElement && el.parentElement.open) : aria('expanded');
  if (exp === 'true') s.push('expanded');
  else if (exp === 'false') s.push('collapsed');
  if (el.required || aria('required') === 'true') s.push('required');
  if (el.readOnly || aria('readonly') === 'true') s.push('readonly');
  if (aria('invalid') && aria('invalid') !== 'false') s.push('invalid');
  if (el === activeElement() && el !== doc.body) s.push('focused');
  return s;
}

// valueOf is what a field holds; undefined for what is no field. Passwords
// never leave the page.
function valueOf(el, most = 200) {
  switch (el.tagName) {
    case 'INPUT':
      switch (el.type) {
        case 'checkbox': case 'radio': case 'button': case 'submit': case 'reset': case 'image': case 'hidden':
          return undefined;
        case 'password':
          return el.value ? `(hidden, ${el.value.length} chars)` : '';
        case 'file':
          return [...el.files].map((f) => f.name).join(', ');
      }
      return cut(clean(el.value), most);
    case 'TEXTAREA':
      return cut(clean(el.value), most);
    case 'SELECT':
      return [...el.selectedOptions].map((o) => clean(o.label)).join(', ');
    case 'PROGRESS':
    case 'METER':
      return el.hasAttribute('value') ? String(el.value) : '';
  }
  if (el.isContentEditable && editingHost(el)) return textOf(el, most);
  return el.getAttribute('aria-valuetext') || el.getAttribute('aria-valuenow') || undefined;
}

// frame waits for the next one.
const frame = () => new Promise((done) => {
  let timer = 0;
  const once = () => { clearTimeout(timer); done(); };
  timer = setTimeout(done, doc.hidden ? 60 : 500); // hidden pages get no frames
  requestAnimationFrame(once);
});
