// Fields: typing, choosing, reading back.

const NATIVE_VALUE = new Set(['date', 'time', 'month', 'week', 'datetime-local', 'color', 'range']);
const TEXT_TYPES = new Set(['text', 'search', 'url', 'tel', 'email', 'password', 'number']);

// editable finds what typing into el means: el itself, the field of a label,
// or the only field inside a wrapper.
function editable(el) {
  const ok = (e) => (e.tagName === 'INPUT' && (TEXT_TYPES.has(e.type) || NATIVE_VALUE.has(e.type))) || e.tagName === 'TEXTAREA' || e.isContentEditable;
  if (ok(el)) return el.isContentEditable && el.tagName !== 'INPUT' && el.tagName !== 'TEXTAREA' ? hostOf(el) : el;
  if (el.tagName === 'LABEL' && el.control && ok(el.control)) return el.control;
  if (el.matches('input,select,button,a')) return null;
  const fields = queryAll(shadowOf(el) || el, 'input,textarea,[contenteditable]').filter((e) => ok(e) && visible(e));
  return fields.length === 1 ? fields[0] : null;
}

function hostOf(el) {
  let e = el;
  while (e.parentElement && e.parentElement.isContentEditable) e = e.parentElement;
  return e;
}

function whyNot(el) {
  const role = actRole(el);
  switch (el.tagName) {
    case 'SELECT': return 'it is a list of options; use the action select';
    case 'INPUT': return el.type === 'file' ? 'it takes a file, and files cannot be uploaded' : `it is a ${role}; use the action click`;
  }
  return `it is a ${role}, not a field`;
}

// fieldOf checks that a field can be typed into and says what typing would
// do to it. With a newline at the end, Enter is pressed in it.
handlers.field = async ({ id, strict, enter }) => {
  const { el, fault } = checked(id, strict);
  if (!el) return fault;
  const field = editable(el);
  if (!field) return { uneditable: whyNot(el) };
  if (disabled(field)) return { reason: 'it is disabled' };
  if (field.readOnly) return { uneditable: 'it is read-only' };
  if (!visible(field)) return { reason: 'it is hidden' };
  field.scrollIntoViewIfNeeded(true);
  await frame();
  if (!field.isConnected) return { gone: true };
  const at = aim(field);
  if (!at.hit && (at.outside || !at.cover || !decoration(at.cover, field))) {
    return { reason: at.cover ? `it is covered by ${describe(at.cover)}` : 'it cannot be scrolled into view', covered: true };
  }
  const target = identity(field, field);
  const multi = field.tagName === 'TEXTAREA' || field.isContentEditable;
  let submit = '';
  if (enter && !multi && field.form) {
    target.submit = true;
    const b = [...field.form.elements].find(submits);
    submit = b ? nameOf(b) : '';
  }
  return { id: idOf(field), x: 0, y: 0, target, submitName: submit, multi, rect: edges(field), native: NATIVE_VALUE.has(field.type) };
};

// decoration tells a placeholder or an icon on top of a field, which are no
// obstacle, from a dialog, which is.
function decoration(cover, field) {
  const wrap = field.parentElement;
  if (!wrap || wrap === doc.body || !within(wrap, cover)) return false;
  const a = cover.getBoundingClientRect();
  const b = wrap.getBoundingClientRect();
  return b.height <= 3 * field.getBoundingClientRect().height && a.top >= b.top - 2 && a.bottom <= b.bottom + 2;
}

// focus takes the focus to the field, selects what is to be replaced, and
// guards the keys to come. Checks are those of arm.
handlers.focus = ({ id, strict, expect, enter, clear, url, from }) => {
  const { el, fault } = checked(from, strict);
  if (!el) return fault;
  const field = byId(id);
  if (!field || editable(el) !== field) return { gone: true };
  if (url && location.href !== url) return { changed: 'the page went elsewhere' };
  if (disabled(field)) return { reason: 'it is disabled' };
  if (field.readOnly) return { uneditable: 'it is read-only' };
  const now = identity(field, field);
  if (enter && expect) now.submit = expect.submit;
  if (expect && !same(now, expect)) return { other: true, target: now };
  let toEnd = false;
  field.focus();
  if (activeElement() !== field) return { uneditable: 'it does not take the focus' };
  if (field.isContentEditable && field.tagName !== 'INPUT' && field.tagName !== 'TEXTAREA') {
    const range = doc.createRange();
    range.selectNodeContents(field);
    if (!clear) range.collapse(false);
    const s = field.getRootNode().getSelection ? field.getRootNode().getSelection() : getSelection();
    s.removeAllRanges();
    s.addRange(range);
  } else if (clear) {
    field.select();
  } else {
    try {
      field.setSelectionRange(field.value.length, field.value.length);
    } catch {
      toEnd = true; // number and email fields have no selection
    }
  }
  arm({ target: field }, KEYS, onKey);
  return { toEnd, empty: field.isContentEditable ? !field.textContent : field.value === '' };
};

// setNative sets fields that have pickers instead of text.
handlers.setNative = ({ id, strict, expect, text, url, from }) => {
  const { el, fault } = checked(from, strict);
  if (!el) return fault;
  const field = byId(id);
  if (!field || editable(el) !== field) return { gone: true };
  if (url && location.href !== url) return { changed: 'the page went elsewhere' };
  if (disabled(field)) return { reason: 'it is disabled' };
  if (field.readOnly) return { uneditable: 'it is read-only' };
  const now = identity(field, field);
  if (expect && !same(now, expect)) return { other: true, target: now };
  const before = field.value;
  const value = normalValue(field.type, text.trim());
  field.focus();
  field.value = value;
  if (field.value !== value && !(field.type === 'range' && value !== '')) {
    field.value = before;
    const forms = { date: '2026-01-31', time: '13:45', month: '2026-01', week: '2026-W05', 'datetime-local': '2026-01-31T13:45', color: '#ff8800' };
    return { badValue: `a ${field.type} field takes values such as ${forms[field.type] || '50'}` };
  }
  field.dispatchEvent(new Event('input', { bubbles: true, composed: true }));
  field.dispatchEvent(new Event('change', { bubbles: true }));
  return {};
};

// normalValue accepts the ways in which dates are written here.
function normalValue(type, s) {
  const pad = (n) => String(n).padStart(2, '0');
  const m = s.match(/^(\d{4})\s*[-/.年]\s*(\d{1,2})(?:\s*[-/.月]\s*(\d{1,2})\s*日?)?月?(?:[T\s]+(\d{1,2})[:：](\d{2})(?::(\d{2}))?)?$/);
  if (m) {
    if (type === 'month') return `${m[1]}-${pad(m[2])}`;
    if (type === 'date' && m[3]) return `${m[1]}-${pad(m[2])}-${pad(m[3])}`;
    if (type === 'datetime-local' && m[3] && m[4]) return `${m[1]}-${pad(m[2])}-${pad(m[3])}T${pad(m[4])}:${m[5]}${m[6] && m[6] !== '00' ? ':' + m[6] : ''}`;
  }
  const t = type === 'time' && s.match(/^(\d{1,2})[:：](\d{2})(?::(\d{2}))?$/);
  if (t) return `${pad(t[1])}:${t[2]}${t[3] && t[3] !== '00' ? ':' + t[3] : ''}`;
  return type === 'color' ? s.toLowerCase() : s;
}

// readBack ends the guard and says what the field now holds.
handlers.readBack = ({ id }) => {
  const g = disarm();
  const el = byId(id);
  return { state: g.state, hit: g.hit, gone: !el, value: el ? valueOf(el, 500) || '' : '' };
};

handlers.options = ({ id, strict }) => {
  const { el, fault } = checked(id, strict);
  if (!el) return fault;
  const list = listOf(el);
  if (!list) return { notSelect: actRole(effective(el)) };
  if (disabled(list)) return { reason: 'it is disabled' };
  if (!visible(list) && !visible(surface(list))) return { reason: 'it is hidden' };
  list.scrollIntoViewIfNeeded(true);
  const at = aim(list);
  if (!at.hit && !at.outside) return { reason: `it is covered by ${at.cover ? describe(at.cover) : 'something'}`, covered: true };
  return { id: idOf(list), target: identity(list, list), rect: edges(list) };
};

function listOf(el) {
  if (el.tagName === 'SELECT') return el;
  if (el.tagName === 'LABEL' && el.control && el.control.tagName === 'SELECT') return el.control;
  if (el.tagName === 'OPTION') return el.closest('select');
  const inner = queryAll(shadowOf(el) || el, 'select').filter(visible);
  return inner.length === 1 && !el.matches('a,button,input') ? inner[0] : null;
}

// choose selects by value, then by label, all in one evaluation.
// again: the page is told of the choice even if it stands there already.
handlers.choose = ({ id, from, strict, expect, value, url, again }) => {
  const { el, fault } = checked(from, strict);
  if (!el) return fault;
  const list = byId(id);
  if (!list || listOf(el) !== list) return { gone: true };
  if (url && location.href !== url) return { changed: 'the page went elsewhere' };
  if (disabled(list)) return { reason: 'it is disabled' };
  const now = identity(list, list);
  if (expect && !same(now, expect)) return { other: true, target: now };
  const all = [...list.options];
  const find = (v) => all.find((o) => o.value === v) || all.find((o) => clean(o.label) === clean(v)) || all.find((o) => clean(o.text) === clean(v));
  let wanted = [find(value)];
  if (!wanted[0] && list.multiple) wanted = value.split(/[,\n，、]/).map((v) => find(v.trim()));
  const bad = wanted.some((o) => !o) ? 'there is no such option' : wanted.some((o) => o.disabled || (o.parentElement.tagName === 'OPTGROUP' && o.parentElement.disabled)) ? 'the option is disabled' : '';
  if (bad) return { noOption: bad, options: all.slice(0, 30).map((o) => cut(clean(o.label), 60)), more: Math.max(0, all.length - 30) };
  list.focus();
  const before = all.map((o) => o.selected).join();
  if (list.multiple) for (const o of all) o.selected = wanted.includes(o);
  else wanted[0].selected = true;
  if (again || all.map((o) => o.selected).join() !== before) {
    list.dispatchEvent(new Event('input', { bubbles: true, composed: true }));
    list.dispatchEvent(new Event('change', { bubbles: true }));
  }
  return { value: valueOf(list) };
};

// choices finds the options that a home-made list has opened.
handlers.choices = ({ value }) => {
  const want = clean(value);
  const names = [];
  let found = 0;
  for (const e of queryAll(doc, '[role=option],[role=menuitem],[role=menuitemradio],[role=treeitem],[class*="select"] li,[class*="dropdown"] li,[class*="option"],[class*="menu"] li,ul li')) {
    if (!visible(e)) continue;
    const name = textOf(e, 150);
    if (name && (name === want || e.getAttribute('data-value') === value || e.getAttribute('value') === value)) {
      if (!found || !within(e, byId(found))) found = idOf(e);
    } else if (name && names.length < 30 && e.matches('[role=option],li')) names.push(name);
  }
  return { id: found, options: names };
};

handlers.text = ({ id }) => {
  const el = byId(id);
  if (!el) return { gone: true };
  const v = valueOf(el, 1e9);
  if (el.tagName === 'TEXTAREA' || (el.tagName === 'INPUT' && el.type !== 'password' && v !== undefined && el.type !== 'file')) return { text: el.value };
  if (v !== undefined && /^(INPUT|SELECT)$/.test(el.tagName)) return { text: v };
  let text = el.innerText !== undefined ? el.innerText : el.textContent;
  const shadow = shadowOf(el);
  if (shadow) text = [...shadow.children].map((c) => c.innerText || '').join('\n') + (text ? '\n' + text : '');
  return { text: text.replace(INVISIBLE, '') };
};

handlers.html = ({ id, outer }) => {
  let el = byId(id);
  if (!el) return { gone: true };
  if (el.matches('input[type=password][value]') || el.querySelector('input[type=password][value]')) {
    el = el.cloneNode(true);
    for (const p of [el, ...el.querySelectorAll('input[type=password][value]')]) if (p.hasAttribute('value')) p.setAttribute('value', '(hidden)');
  }
  return { text: outer ? el.outerHTML : el.innerHTML };
};

handlers.scroll = async ({ id, x, y }) => {
  let el = null;
  if (id) {
    el = byId(id);
    if (!el) return { gone: true };
    if (x === undefined && y === undefined) el.scrollIntoView({ block: 'center', inline: 'nearest', behavior: 'instant' });
    else el.scrollTo({ left: x, top: y, behavior: 'instant' });
  } else {
    // Pages that scroll an inner container instead of the window.
    const page = doc.scrollingElement;
    el = page.scrollHeight > innerHeight + 1 || page.scrollWidth > innerWidth + 1 ? null : mainScroller();
    (el || window).scrollTo({ left: x, top: y, behavior: 'instant' });
  }
  await frame();
  const s = el && (x !== undefined || y !== undefined) ? el : doc.scrollingElement;
  return { x: Math.round(s.scrollLeft), y: Math.round(s.scrollTop), height: s.scrollHeight, view: s === doc.scrollingElement ? innerHeight : s.clientHeight };
};

function mainScroller() {
  let best = null;
  for (const e of doc.querySelectorAll('body *')) {
    if (e.scrollHeight <= e.clientHeight + 1 || e.clientHeight < innerHeight / 3) continue;
    const o = getComputedStyle(e).overflowY;
    if ((o === 'auto' || o === 'scroll') && (!best || e.clientWidth * e.clientHeight > best.clientWidth * best.clientHeight)) best = e;
  }
  return best;
}

handlers.about = () => ({
  url: location.href, title: clean(doc.title), x: scrollX, y: scrollY, width: innerWidth, height: innerHeight,
  ready: doc.readyState, status: (performance.getEntriesByType('navigation')[0] || {}).responseStatus || 0,
});

// quiet answers when the page has not changed for `idle` ms, or after `most`.
handlers.quiet = ({ idle, most }) => new Promise((done) => {
  let timer = 0;
  const finish = () => {
    observer.disconnect();
    clearTimeout(timer);
    clearTimeout(end);
    done({});
  };
  const again = () => {
    clearTimeout(timer);
    timer = setTimeout(finish, idle);
  };
  const observer = new MutationObserver(again);
  observer.observe(doc, { subtree: true, childList: true, attributes: true, characterData: true });
  const end = setTimeout(finish, most);
  again();
});

handlers.storageSet = ({ key, value }) => {
  try {
    localStorage.setItem(key, value);
    return {};
  } catch (e) {
    return { refused: e.name };
  }
};

handlers.storageGet = ({ key }) => {
  try {
    const v = localStorage.getItem(key);
    return { found: v !== null, text: v === null ? '' : v };
  } catch (e) {
    return { refused: e.name };
  }
};

handlers.sessionClear = () => {
  try {
    sessionStorage.clear();
    return {};
  } catch (e) {
    return { refused: e.name };
  }
};

// login finds the fields of a login form.
handlers.login = ({ user, password, submit }) => {
  const first = (sel) => pick(queryAll(doc, sel));
  let pw;
  let name;
  let button;
  try {
    pw = password ? first(password) : queryAll(doc, 'input[type=password]').find((e) => visible(e) && !disabled(e));
    name = user ? first(user) : null;
    button = submit ? first(submit) : null;
  } catch (e) {
    return { invalid: e.message };
  }
  if (!pw) return { none: true };
  const scope = pw.form || closest(pw, 'form,[role=form],dialog,[role=dialog]') || doc;
  if (!name && !user) {
    const before = queryAll(scope, 'input').filter((e) => ['text', 'email', 'tel', 'number', 'search'].includes(e.type) && visible(e) && !disabled(e) &&
      e.compareDocumentPosition(pw) & Node.DOCUMENT_POSITION_FOLLOWING);
    name = before.find((e) => /user|name|account|login|email|phone|账号|用户|工号|手机|邮箱/i.test([e.name, e.id, e.autocomplete, e.placeholder, nameOf(e)].join(' '))) || before[before.length - 1];
  }
  if (!button && !submit) {
    const list = queryAll(scope, 'button,input[type=submit],input[type=image],[role=button],a').filter((e) => visible(e) && !disabled(e));
    button = list.find((e) => /^(登\s*录|登\s*陆|立即登录|进入系统|log\s*in|sign\s*in|submit|提交|确定)$/i.test(nameOf(e))) || list.find((e) => submits(e)) ||
      list.find((e) => !e.matches('a') && /登录|log\s*in|sign\s*in/i.test(nameOf(e)));
  }
  return { user: name ? idOf(name) : 0, password: idOf(pw), submit: button ? idOf(button) : 0 };
};

handlers.loginShown = () => ({ shown: queryAll(doc, 'input[type=password]').some(visible) });
