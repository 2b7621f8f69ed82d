// SPDX-License-Identifier: MIT
// What all pages are made with: nodes, figures, and the view that the address keeps. The scripts of
// a page stand one behind the other in one function. All text goes in as text nodes; no page has
// markup made from data.
const D = JSON.parse(document.getElementById('data').textContent);
const $ = (id) => document.getElementById(id);

const el = (tag, props, ...children) => {
  const node = document.createElement(tag);
  for (const [k, v] of Object.entries(props || {})) {
    if (k === 'class') node.className = v;
    else if (k === 'on') for (const [name, f] of Object.entries(v)) node.addEventListener(name, f);
    else if (k === 'style') for (const [name, s] of Object.entries(v)) node.style[name] = s;
    else if (v !== null && v !== undefined && v !== false) node.setAttribute(k, v);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) node.append(child);
  return node;
};
const button = (name, click, more) => el('button', { type: 'button', on: { click }, ...more }, name);

// --- figures -------------------------------------------------------------------------------
const count = (n) => {
  if (n < 1000) return String(Math.round(n));
  const units = ['k', 'M', 'G', 'T', 'P', 'E'];
  let u = -1;
  while (n >= 999.5 && u < 5) { n /= 1000; u++; }
  return n.toFixed(n < 9.995 ? 2 : n < 99.95 ? 1 : 0) + ' ' + units[u];
};
const whole = (n) => Math.round(n).toLocaleString('en');
// What is not known is null.
const wholeOrNot = (n) => n === null ? 'not known' : whole(n);
const estimatedTotal = (coverage) => coverage.estimated && coverage.total !== null ? ' (estimated)' : '';
const many = (n, what) => whole(n) + ' ' + what + (n === 1 ? '' : 's');
const percent = (x) => (100 * x).toFixed(1) + '%';
const seconds = (s) => s >= 1 ? s.toFixed(2) + ' s' : s >= 1e-3 ? (s * 1e3).toFixed(1) + ' ms' : (s * 1e6).toFixed(0) + ' µs';
const bar = (x, label) => el('span', { class: 'share' },
  el('i', { style: { width: Math.max(0, Math.min(100, 100 * x)) + '%' } }), el('em', {}, label ?? percent(x)));
const words = (s) => s.replace(/_/g, ' ');
const chips = (items) => el('ul', { class: 'chips' }, items.map((x) => el('li', { title: x }, x)));
const tile = (value, name, title) => el('div', { class: 'tile', title }, el('b', {}, value), el('span', {}, name));
const facts = (title, rows) => el('div', { class: 'card' }, el('h3', {}, title),
  rows.length ? el('table', {}, el('tbody', {}, rows.map((r) => el('tr', {}, el('td', {}, r[0]), el('td', { class: 'n' }, r[1]))))) :
    el('p', { class: 'empty' }, 'none'));

// --- the view, as the address keeps it -------------------------------------------------------
// What is not as it is at first stands behind the # of the address: a copy of that, opened again,
// shows the same. A name or number that the page does not have is as good as none.
const view = {
  get(key) { return new URLSearchParams(location.hash.slice(1)).get(key) || ''; },
  put(changes) {
    const all = new URLSearchParams(location.hash.slice(1));
    for (const [key, value] of Object.entries(changes)) {
      if (value === '' || value === null || value === undefined) all.delete(key);
      else all.set(key, value);
    }
    const text = all.toString();
    if (text !== location.hash.slice(1)) history.replaceState(null, '', location.href.split('#')[0] + (text && '#' + text));
  },
};

// Some words of which one is chosen; the first one unless the address says otherwise.
// choices: [[word of the address, name], ...]; `use(word)` does it.
class Choice {
  constructor(key, title, choices, use) {
    this.key = key; this.use = use; this.words = choices.map((c) => c[0]); this.value = this.words[0];
    this.buttons = choices.map(([word, name]) => button(name, () => { this.set(word); view.put({ [key]: word === this.words[0] ? '' : word }); }));
    this.node = el('span', { class: 'choice', role: 'group', 'aria-label': title }, el('span', { class: 'soft' }, title), this.buttons);
    this.mark();
  }
  mark() { this.buttons.forEach((b, i) => b.setAttribute('aria-pressed', this.words[i] === this.value)); }
  set(word) {
    const value = this.words.includes(word) ? word : this.words[0];
    if (value === this.value) return;
    this.value = value;
    this.mark();
    this.use(value);
  }
  next() { this.buttons[(this.words.indexOf(this.value) + 1) % this.words.length].click(); }
  restore() { this.set(view.get(this.key)); }
}

// --- dark and light --------------------------------------------------------------------------
const paint = (dark) => document.documentElement.setAttribute('data-scheme', dark ? 'dark' : 'light');
const flip = () => paint(document.documentElement.getAttribute('data-scheme') !== 'dark');
{
  const system = matchMedia('(prefers-color-scheme: dark)');
  paint(system.matches);
  system.addEventListener('change', (e) => paint(e.matches));
  $('scheme').addEventListener('click', flip);
  // Paper is white.
  let before = null;
  addEventListener('beforeprint', () => { before = document.documentElement.getAttribute('data-scheme'); paint(false); });
  addEventListener('afterprint', () => paint(before === 'dark'));
}

