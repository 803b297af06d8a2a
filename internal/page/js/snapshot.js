// Describing a page for a model: one line per block, table row or list item.
// Refs are written as \u0001id\u0002 and replaced by Go.

const LANDMARKS = { dialog: 'dialog', alertdialog: 'dialog', navigation: 'navigation', tablist: 'tabs', menu: 'menu', menubar: 'menu', toolbar: 'toolbar', listbox: 'listbox', tree: 'tree', alert: 'alert', radiogroup: 'radiogroup' };
const NATIVE = 'a[href],button,input,select,textarea,summary,[role=button],[role=link],[role=checkbox],[role=menuitem],[role=tab],[onclick],[contenteditable]';

const mark = (id) => `[ref=\u0001${id}\u0002]`;

class Snapshot {
  constructor({ cap, nodes }) {
    this.cap = cap;
    this.left = nodes;
    this.lines = [];
    this.depth = 0;
    this.front = false; // in an open dialog
    this.cellDepth = 0;
    this.parts = [];
    this.top = null;
    this.prefix = '';
    this.rows = new Map();
    this.hosts = [];
    this.skipped = 0;
    this.cutShort = false;
  }

  // see notes where the line that is being written lies.
  see(el) {
    if (this.top !== null || !el) return;
    const r = el.getBoundingClientRect();
    this.top = r.top;
    this.bottom = r.bottom;
    this.seen = r.bottom > 0 && r.top < innerHeight && r.right > 0 && r.left < innerWidth;
  }

  add(text, el) {
    if (!text) return;
    this.see(el);
    this.parts.push(text);
  }

  flush() {
    if (this.cellDepth) {
      if (this.parts.length && this.parts[this.parts.length - 1] !== '\n') this.parts.push('\n');
      return;
    }
    const text = this.parts.join(' ').replace(/ +/g, ' ').trim();
    this.parts = [];
    if (text) this.line(this.prefix + text);
    if (text) this.prefix = '';
    this.top = null;
  }

  line(text, extra) {
    this.lines.push({ d: this.depth, t: text, v: this.seen ? 1 : 0, y: Math.round(this.top || 0), f: this.front ? 1 : 0, ...extra });
  }

  note(text, el) {
    this.flush();
    this.see(el);
    if (this.cellDepth) this.parts.push(text);
    else this.line(text);
    this.top = null;
  }

  children(node, pointing) {
    const kids = node.tagName === 'SLOT' && node.assignedNodes({ flatten: true }).length ? node.assignedNodes({ flatten: true }) : (shadowOf(node) || node).childNodes;
    let hidden = null;
    if (this.cap && kids.length > this.cap) hidden = this.window(kids);
    let gap = 0;
    let gapTag = '';
    for (const kid of kids) {
      if (hidden && hidden.has(kid)) {
        gap++;
        gapTag = kid.tagName;
        continue;
      }
      if (gap && kid.nodeType === Node.ELEMENT_NODE) {
        this.more(gap, gapTag, kid);
        gap = 0;
      }
      if (kid.nodeType === Node.TEXT_NODE) {
        const t = clean(kid.data);
        if (t) this.add(cut(t, 2000), node instanceof Element ? node : null);
      } else if (kid.nodeType === Node.ELEMENT_NODE) this.element(kid, pointing);
    }
    if (gap) this.more(gap, gapTag, null);
  }

  more(n, tag, el) {
    this.skipped += n;
    const what = tag === 'TR' ? 'rows' : tag === 'LI' ? 'items' : tag === 'OPTION' ? 'options' : 'elements';
    this.note(`... ${n} more ${what} (root_selector or scrollTo)`, el);
  }

  // window chooses which of many equal children to show: those from the first
  // one in view on.
  window(kids) {
    const groups = new Map();
    for (const k of kids) {
      if (k.nodeType !== Node.ELEMENT_NODE || SKIP.has(k.tagName)) continue;
      const g = groups.get(k.tagName);
      if (g) g.push(k);
      else groups.set(k.tagName, [k]);
    }
    const hidden = new Set();
    for (const list of groups.values()) {
      if (list.length <= this.cap) continue;
      let lo = 0;
      let hi = list.length; // children are laid out one after the other
      while (lo < hi) {
        const mid = (lo + hi) >> 1;
        if (list[mid].getBoundingClientRect().bottom <= 0 && list[mid].checkVisibility()) lo = mid + 1;
        else hi = mid;
      }
      const start = Math.max(0, Math.min(lo, list.length - this.cap));
      list.forEach((k, i) => { if (i < start || i >= start + this.cap) hidden.add(k); });
    }
    return hidden;
  }

  ref(el, role, name) {
    return mark(remember(el, role, name, this.rows));
  }

  element(el, pointing) {
    if (SKIP.has(el.tagName)) return;
    if (this.left-- <= 0) {
      this.cutShort = true;
      return;
    }
    if (!el.checkVisibility()) {
      if (el.isConnected && getComputedStyle(el).display === 'contents') this.children(el, pointing);
      return;
    }
    const cs = getComputedStyle(el);
    const inline = cs.display.startsWith('inline') || cs.display === 'contents';
    if (cs.visibility !== 'visible') {
      for (const kid of el.children) this.element(kid, pointing);
      return;
    }
    const shadow = shadowOf(el);
    if (!shadow && !examined.has(el) && this.hosts.length < 100 && this.mayHide(el)) this.hosts.push(idOf(el));
    const role = roleOf(el);
    switch (el.tagName) {
      case 'BR':
        if (!this.cellDepth) this.flush();
        return;
      case 'HR':
        this.flush();
        return;
      case 'IFRAME':
      case 'FRAME': {
        const r = el.getBoundingClientRect();
        if (r.width < 2 || r.height < 2) return;
        this.flush();
        this.see(el);
        const name = nameOf(el);
        this.line('iframe' + (name ? ' ' + quote(name, 60) : ''), { i: idOf(el), cell: this.cellDepth > 0 });
        this.top = null;
        return;
      }
      case 'TABLE':
        if (role === 'table' || role === 'grid' || role === 'treegrid') {
          if (!el.querySelector('table') && el.rows.length) {
            this.flush();
            const name = nameOf(el);
            if (name && !el.caption) this.note(`table ${quote(name, 60)}`, el);
          }
        }
        break;
      case 'IMG': {
        const name = nameOf(el);
        if (!this.clickable(el, cs, pointing)) {
          if (name && name.length > 1) this.add(`img ${quote(name, 80)}`, el);
          return;
        }
        break;
      }
      case 'LABEL':
        // What a field is called stands with the field.
        if (el.control && shown(el.control) && !el.querySelector('a[href],button,select,textarea')) {
          if (within(el, el.control)) this.element(el.control, pointing);
          return;
        }
        break;
      case 'LEGEND':
      case 'CAPTION':
        this.flush();
        this.add(textOf(el, 150), el);
        this.flush();
        return;
    }
    if (WIDGETS.has(role) && !(role === 'option' && el.tagName === 'OPTION')) {
      if (!(role === 'option' || role === 'treeitem') || !el.querySelector(NATIVE)) return this.control(el, role, inline);
    }
    if (this.isRow(el, role)) return this.row(el, cs, pointing);
    if (this.clickable(el, cs, pointing)) return this.generic(el, cs, inline, pointing);
    if (role === 'heading') {
      this.flush();
      const level = Number(el.getAttribute('aria-level')) || Number(el.tagName[1]) || 2;
      this.prefix = '#'.repeat(Math.min(level, 6)) + ' ';
      this.children(el, pointing);
      this.flush();
      this.prefix = '';
      return;
    }
    if (role === 'progressbar' || role === 'meter') return this.add(`${role} ${valueOf(el) || ''}`.trim(), el);
    const landmark = LANDMARKS[role];
    if (landmark && !this.cellDepth) return this.landmark(el, landmark, pointing);
    if (role === 'listitem' && !this.cellDepth) {
      this.flush();
      const at = this.lines.length;
      this.prefix = '- ';
      this.children(el, pointing);
      this.flush();
      this.prefix = '';
      for (let i = at + 1; i < this.lines.length; i++) this.lines[i].d++;
      return;
    }
    if (inline) return this.children(el, pointing);
    this.flush();
    this.children(el, pointing);
    this.flush();
  }

  // mayHide tells elements that may have a closed shadow root.
  mayHide(el) {
    if (el.tagName.includes('-')) return true;
    examined.add(el);
    if (el.childNodes.length || !/^(DIV|SPAN|SECTION|ARTICLE|ASIDE|MAIN|NAV|HEADER|FOOTER|P)$/.test(el.tagName)) return false;
    const r = el.getBoundingClientRect();
    return r.width > 20 && r.height > 10;
  }

  landmark(el, word, pointing) {
    this.flush();
    const front = this.front;
    if (word === 'dialog' && visible(el)) this.front = true;
    const name = nameOf(el);
    this.see(el);
    const at = this.lines.length;
    this.line(word + (name ? ' ' + quote(name, 60) : '') + ':');
    this.top = null;
    this.depth++;
    this.children(el, pointing);
    this.flush();
    this.depth--;
    if (this.lines.length === at + 1) this.lines.pop();
    this.front = front;
  }

  clickable(el, cs, pointing) {
    if (el === doc.body || el === doc.documentElement) return false;
    if (el.hasAttribute('onclick')) return true;
    if (cs.cursor === 'pointer' && !pointing && el.tagName !== 'LABEL') return true;
    const tab = el.getAttribute('tabindex');
    return tab !== null && Number(tab) >= 0 && !el.querySelector(NATIVE) && el.childElementCount < 10;
  }

  isRow(el, role) {
    if (el.tagName === 'TR') {
      if (this.cellDepth) return false;
      return role === 'row' && !el.querySelector('table');
    }
    return role === 'row' && !this.cellDepth;
  }

  row(el, cs, pointing) {
    this.flush();
    const whole = this.clickable(el, cs, pointing);
    this.see(el);
    const [top, bottom, seen] = [this.top, this.bottom, this.seen];
    const cells = [];
    this.cellDepth++;
    const collect = (parent) => {
      for (const cell of parent.children) {
        if (!shown(cell)) continue;
        const r = roleOf(cell);
        if (!/^(cell|columnheader|rowheader|gridcell)$/.test(r) && cell.tagName !== 'TD' && cell.tagName !== 'TH') {
          if (cell.querySelector('td,th,[role=cell],[role=gridcell],[role=columnheader],[role=rowheader]')) {
            collect(cell);
            continue;
          }
        }
        const before = this.parts;
        this.parts = [];
        const ccs = getComputedStyle(cell);
        if (/^(TD|TH)$/.test(cell.tagName) || /cell|header/.test(r)) {
          if (!whole && this.clickable(cell, ccs, pointing)) this.generic(cell, ccs, true, pointing);
          else this.children(cell, pointing || ccs.cursor === 'pointer');
        } else this.element(cell, pointing);
        let text = this.parts.join(' ').replace(/(\s*\n\s*)+$/, '').replace(/^\s*\n|:\s*\n/g, (m) => m[0] === ':' ? ': ' : '').replace(/\s*\n\s*/g, ' / ').replace(/ +/g, ' ').trim();
        this.parts = before;
        cells.push(text);
        for (let i = (cell.colSpan || 1) - 1; i > 0 && i < 20; i--) cells.push('');
      }
    };
    collect(shadowOf(el) || el);
    this.cellDepth--;
    if (!cells.some(Boolean) && !whole) {
      this.top = null;
      return;
    }
    while (cells.length > 1 && !cells[cells.length - 1]) cells.pop();
    let text = '| ' + cells.join(' | ') + ' |';
    if (whole) text += ' ' + this.ref(el, actRole(el), nameOf(el, actRole(el)));
    const states = statesOf(el, 'row');
    if (states.length) text += ` (${states.join(', ')})`;
    [this.top, this.bottom, this.seen] = [top, bottom, seen];
    this.line(text);
    this.top = null;
  }

  // control writes a widget: role, name, ref, value, states.
  control(el, role, inline) {
    if (el.tagName === 'INPUT' && el.type === 'hidden') return;
    const act = actRole(el);
    const name = nameOf(el, act);
    let text = el.tagName === 'INPUT' && el.type === 'password' ? 'password' : role;
    if (name) text += ' ' + quote(name, 100);
    else {
      const hint = clean(hintOf(el));
      if (hint) text += ` (${cut(hint, 40)})`;
    }
    text += ' ' + this.ref(el, act, name);
    if (el.tagName === 'INPUT' && NATIVE_VALUE.has(el.type) && role === 'textbox') text += ` type=${el.type}`;
    if (el.tagName === 'SELECT') text += ' ' + this.options(el);
    else {
      const v = valueOf(el, 150);
      if (v) text += ' = ' + quote(v, 150);
      else if (v === '' && el.placeholder) {
        const p = clean(el.placeholder);
        if (p && p !== name) text += ` placeholder ${quote(p, 60)}`;
      }
    }
    const states = statesOf(el, role);
    if (states.length) text += ` (${states.join(', ')})`;
    if (!inline && !this.cellDepth && el.querySelector && (role === 'link' || role === 'treeitem' || role === 'option')) this.flush();
    this.add(text, el);
    if (!/^(INPUT|SELECT|TEXTAREA)$/.test(el.tagName) && !el.isContentEditable && el.querySelector(NATIVE)) {
      for (const inner of queryAll(el, NATIVE)) if (shown(inner)) this.control(inner, WIDGETS.has(roleOf(inner)) ? roleOf(inner) : actRole(inner), true);
    }
    if (!inline && role === 'link' && !this.cellDepth) this.flush();
  }

  options(el) {
    const all = [...el.options];
    const most = 15;
    let list = all.slice(0, most);
    const chosen = all.filter((o) => o.selected).slice(0, most);
    for (const c of chosen) if (!list.includes(c)) list.push(c);
    const texts = list.map((o) => (o.selected ? '*' : '') + cut(clean(o.label), 40) + (o.disabled ? ' (disabled)' : ''));
    const more = all.length - list.length;
    return `{${texts.join(', ')}${more > 0 ? `, ... ${more} more` : ''}}`;
  }

  // generic writes an element that can be clicked though its tag doesn't say
  // so. With controls inside it is only marked.
  generic(el, cs, inline, pointing) {
    const role = actRole(el);
    const name = nameOf(el, role);
    const many = el.querySelector(NATIVE) || el.getElementsByTagName('*').length > 30;
    if (many && !el.hasAttribute('onclick') && el.querySelector('input,select,textarea')) {
      // The frame around a field; a press on it is one on the field.
      if (!inline) this.flush();
      this.children(el, true);
      if (!inline) this.flush();
      return;
    }
    // The picture of a hidden box, which stands here already.
    const before = el.previousElementSibling;
    if (!many && !name && before && before.matches('input[type=checkbox],input[type=radio]')) return;
    if (!inline && !this.cellDepth) this.flush();
    if (many) {
      this.add(role + ' ' + this.ref(el, role, name) + ':', el);
      this.children(el, true);
      if (!inline && !this.cellDepth) this.flush();
      return;
    }
    let text = role;
    if (name) text += ' ' + quote(name, 120);
    else {
      const hint = clean(hintOf(el));
      const r = el.getBoundingClientRect();
      if (!hint && (r.width < 4 || r.height < 4)) return;
      text += hint ? ` (${cut(hint, 40)})` : '';
    }
    text += ' ' + this.ref(el, role, name);
    const states = statesOf(el, role);
    if (states.length) text += ` (${states.join(', ')})`;
    this.add(text, el);
    for (const icon of this.icons(el)) {
      const own = nameOf(icon, 'icon');
      const hint = clean(hintOf(icon));
      if (!own && !hint) continue;
      this.add(`icon ${own ? quote(own, 40) : '(' + cut(hint, 40) + ')'} ` + this.ref(icon, actRole(icon), nameOf(icon)), icon);
    }
    if (!inline && !this.cellDepth) this.flush();
  }

  // icons are the unnamed little things inside something clickable that may
  // do something of their own (a star, a bin).
  icons(el) {
    if (!textOf(el, 20)) return [];
    const out = [];
    for (const e of el.querySelectorAll('i,svg,span,img,div')) {
      if (out.length >= 4) break;
      if (e.childElementCount && e.tagName !== 'svg') continue;
      if (e.tagName !== 'IMG' && clean(e.textContent)) continue;
      if (out.some((o) => within(o, e))) continue;
      if (!visible(e)) continue;
      const r = e.getBoundingClientRect();
      if (r.width >= 6 && r.width <= 80 && r.height >= 6 && r.height <= 80) out.push(e);
    }
    return out;
  }
}

handlers.snapshot = ({ id, cap, nodes }) => {
  const root = id ? byId(id) : doc.body || doc.documentElement;
  if (!root) return id ? { gone: true } : { lines: [], hosts: [] };
  const s = new Snapshot({ cap, nodes });
  if (id) s.element(root, false);
  else s.children(root, false);
  s.flush();
  const page = doc.scrollingElement || doc.documentElement;
  return {
    lines: s.lines, hosts: s.hosts, skipped: s.skipped, cut: s.cutShort, url: location.href, title: clean(doc.title), ready: doc.readyState,
    y: Math.round(scrollY), view: innerHeight, height: page.scrollHeight, next: nextId,
  };
};

// tree is the seed's form of a snapshot.
handlers.tree = ({ id, nodes }) => {
  const root = id ? byId(id) : doc.body || doc.documentElement;
  if (!root) return { gone: true };
  let left = nodes;
  let cutShort = false;
  const rows = new Map();
  const hosts = [];
  const visit = (el, pointing, out) => {
    if (SKIP.has(el.tagName)) return;
    if (left <= 0) {
      cutShort = true;
      return;
    }
    const kids = (into, point) => {
      const list = el.tagName === 'SLOT' && el.assignedNodes({ flatten: true }).length ? el.assignedNodes({ flatten: true }) : (shadowOf(el) || el).childNodes;
      let text = '';
      const flush = () => {
        const t = clean(text);
        text = '';
        if (t && left-- > 0) {
          const r = el.getBoundingClientRect();
          into.push({ role: 'text', name: cut(t, 500), bounds: [r.left, r.top, r.width, r.height].map(Math.round) });
        }
      };
      for (const k of list) {
        if (k.nodeType === Node.TEXT_NODE) text += k.data;
        else if (k.nodeType === Node.ELEMENT_NODE) {
          flush();
          visit(k, point, into);
        }
      }
      flush();
    };
    if (!el.checkVisibility()) {
      if (el.isConnected && getComputedStyle(el).display === 'contents') kids(out, pointing);
      return;
    }
    const cs = getComputedStyle(el);
    if (el.tagName.includes('-') && !shadowOf(el)) hosts.push(idOf(el));
    const role = roleOf(el);
    const click = !!cs && cs.visibility === 'visible' && (WIDGETS.has(role) || el.hasAttribute('onclick') || (cs.cursor === 'pointer' && !pointing)) && el !== doc.body;
    const point = pointing || cs.cursor === 'pointer';
    if (cs.visibility !== 'visible' || (role === 'generic' && !click) || el === root && !id) return kids(out, point);
    left--;
    const r = el.getBoundingClientRect();
    const act = click ? actRole(el) : role;
    const node = { role: act, name: click || role !== 'row' && role !== 'listitem' && role !== 'cell' ? nameOf(el, act) : '', bounds: [r.left, r.top, r.width, r.height].map(Math.round) };
    const v = valueOf(el);
    if (v) node.value = v;
    if (click) node.ref = `\u0001${remember(el, act, node.name, rows)}\u0002`;
    if (el.tagName === 'IFRAME' || el.tagName === 'FRAME') node.frame = idOf(el);
    const states = statesOf(el, act);
    if (states.length) node.states = states;
    out.push(node);
    if (click && NAMED_BY_CONTENT.has(act) && !el.querySelector(NATIVE)) return;
    if (role === 'heading' || role === 'textbox' || el.tagName === 'SELECT') return;
    node.children = [];
    kids(node.children, point);
    if (!node.children.length) delete node.children;
  };
  const out = [];
  visit(root, false, out);
  return { nodes: out, cut: cutShort, hosts };
};
