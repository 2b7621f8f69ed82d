// SPDX-License-Identifier: MIT
// Lists: tables that sort, search and are drawn as far as they can be seen; the tabs that they are
// behind, and the keys.

// Rows of a table that scrolls in a box: those to be seen, and more as it is scrolled. What is
// drawn at a keystroke or a click does not depend on how much there is.
class Rows {
  constructor(box, body) {
    this.box = box; this.body = body; this.rest = [][Symbol.iterator]();
    box.addEventListener('scroll', () => this.fill());
  }
  begin(rows) {
    this.rest = rows[Symbol.iterator]();
    this.body.replaceChildren();
    this.box.scrollTop = 0;
    this.more();
    this.fill();
  }
  more(most = 12) {
    const made = [];
    for (let next; made.length < most && !(next = this.rest.next()).done;) made.push(next.value);
    this.body.append(...made);
    return made.length > 0;
  }
  // As far as can be seen, and half as far again; each time as many rows as that is, if they are as
  // tall as those before. Before the box is on the page nothing can be seen.
  fill() {
    const box = this.box, rows = this.body.children;
    for (let left; box.clientHeight && (left = box.scrollTop + 1.5 * box.clientHeight - box.scrollHeight) > 0;)
      if (!this.more(Math.ceil(left * rows.length / box.scrollHeight) || 1)) break;
  }
  reach(n) { while (this.body.children.length <= n && this.more()); }
  all() { while (this.more()); }
}

// Which rows lists show, whatever is searched for.
let keepRow = () => true;

// --- a list: columns, sorting, search, rows that can be picked -------------------------------
// column: { key(row): value to sort and search by, head, show(row): node or text, num, first: -1,
//           minor: not on a screen that is narrow }
const classOf = (c, ...more) => [...more, c.num && 'n', c.minor && 'minor'].filter(Boolean).join(' ') || null;
// options: { open(row), current(row): it is open, keep(row): it is shown at all }
class List {
  constructor(rows, columns, options) {
    this.rows = rows; this.columns = columns; this.options = options || {};
    this.sort = null; this.down = true; this.words = '';
    this.picked = -1;
    this.body = el('tbody');
    this.head = columns.map((c, n) => el('th', { class: classOf(c), scope: 'col', title: c.title },
      button(c.head, () => { this.order(n, this.sort === n ? !this.down : !!c.num); view.put({ sort: this.sorted() }); })));
    this.note = el('p', { class: 'empty', hidden: '' });
    const box = el('div', { class: 'scroll' }, el('table', {}, el('thead', {}, el('tr', {}, this.head)), this.body));
    this.node = el('div', { class: 'card' }, box, this.note);
    this.drawn = new Rows(box, this.body);
    this.draw();
  }
  order(n, down) {
    this.down = down;
    this.sort = n;
    this.head.forEach((h, k) => {
      if (k === n) h.setAttribute('aria-sort', this.down ? 'descending' : 'ascending');
      else h.removeAttribute('aria-sort');
    });
    this.draw();
  }
  // As the address has it: the number of a column from 1, negative where the largest is first.
  sorted() { return this.sort === null ? '' : String((this.down ? -1 : 1) * (this.sort + 1)); }
  sortAs(text) {
    const n = parseInt(text, 10);
    if (text !== this.sorted() && this.columns[Math.abs(n) - 1]) this.order(Math.abs(n) - 1, n < 0);
  }
  filter(words) { if (words !== this.words) { this.words = words; this.draw(); } }
  matches(words) {
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    if (!this.texts) this.texts = this.rows.map((r) => this.columns.map((c) => c.text ? c.text(r) : '').join(' ').toLowerCase());
    const keep = this.options.keep || (() => true);
    return this.rows.filter((r, i) => keep(r) && keepRow(r) && wanted.every((w) => this.texts[i].includes(w)));
  }
  draw() {
    const rows = this.matches(this.words);
    if (this.sort !== null) {
      const key = this.columns[this.sort].key;
      rows.sort((a, b) => { const x = key(a), y = key(b); return (x < y ? -1 : x > y ? 1 : 0) * (this.down ? -1 : 1); });
    }
    this.shown = rows;
    this.picked = -1;
    this.drawn.begin(this.nodes());
    this.note.hidden = rows.length > 0;
    this.note.textContent = this.rows.length ? 'Nothing matches.' : 'Nothing is here.';
    this.appear();
  }
  // What is open elsewhere is marked here.
  appear() {
    const at = this.options.current ? this.shown.findIndex(this.options.current) : -1;
    if (at >= 0) this.mark(at);
  }
  *nodes() {
    const can = !!this.options.open;
    for (const [n, r] of this.shown.entries())
      yield el('tr', { class: [can && 'link', n === this.picked && 'picked'].filter(Boolean).join(' ') || null, on: { click: () => this.pick(n, true) } },
        this.columns.map((c) => el('td', { class: classOf(c, !c.num && c.mono && 'name') }, c.show(r))));
  }
  // A row that is not drawn yet is marked when it is.
  mark(n) {
    this.body.children[this.picked]?.classList.remove('picked');
    this.picked = n;
    this.body.children[n]?.classList.add('picked');
  }
  pick(n, open) {
    if (n < 0 || n >= this.shown.length) return;
    this.drawn.reach(n);
    this.mark(n);
    this.body.children[n].scrollIntoView({ block: 'nearest' });
    if (open && this.options.open) this.options.open(this.shown[n]);
  }
  move(by) { this.pick(Math.max(0, Math.min(this.shown.length - 1, this.picked + by)), !!this.options.open); }
}
const text = (head, get, more) => ({ head, key: get, text: get, show: (r) => el('span', { class: 'clip', title: get(r) }, get(r)), mono: true, ...more });
const num = (head, get, more) => ({ head, key: get, show: (r) => el('span', { title: whole(get(r)) }, count(get(r))), num: true, ...more });
const share = (head, get, more) => ({ head, key: get, show: (r) => bar(get(r)), num: true, ...more });
// Something that is no list, behind a tab.
const still = (node) => ({ wrap: node, node, filter() {}, move() {}, matches: () => [] });

// --- tabs, search, keys ----------------------------------------------------------------------
// page: { tabs: [[name, rows in the profile or null, make()], ...], notes: {tab's name: text},
//         says(tab's name): another, flames, keys: [[key, what it does, does()], ...], first: which rows a list has,
//         reopen(name): opens the function of that name, "" the one that is open at first,
//         restore(): what else the address has }
// page.again() is there then: lists are made anew.
const startPage = (page) => {
  const { tabs } = page;
  let tab = 0, list = null;
  const made = [];
  const search = $('search');
  const buttons = tabs.map(([name, size], n) => el('button', { type: 'button', role: 'tab', on: { click: () => go(n) } },
    name, size === null ? null : el('small', {}, whole(size))));
  const show = (n) => {
    tab = n;
    made[n] = made[n] || tabs[n][2]();
    page.list = list = made[n];
    buttons.forEach((b, k) => { b.setAttribute('aria-selected', k === n); b.tabIndex = k === n ? 0 : -1; });
    list.filter(search.value);
    $('view').replaceChildren(list.wrap || list.node);
    list.drawn?.fill();
    list.appear?.();
    for (const said of [page.notes[tabs[n][0]], page.says?.(tabs[n][0])])
      if (said) $('view').prepend(el('p', { class: 'note' }, said));
    const all = tabs[n][1], have = list.rows ? list.rows.length : 0;
    if (all !== null && have < all && have) $('view').append(el('p', { class: 'note' }, 'The ' + (page.first || 'hottest') + ' ' + whole(have) + ' of ' + whole(all) + '.'));
  };
  const go = (n) => { show(n); view.put({ list: n ? tabs[n][0] : '', sort: list.sorted ? list.sorted() : '' }); };
  const find = (words) => {
    search.value = words;
    list.filter(words);
    page.flames.search(words);
    view.put({ find: words });
  };
  search.addEventListener('input', () => find(search.value));
  page.again = () => {
    made.length = 0;
    show(tab);
    list.sortAs?.(view.get('sort'));
  };
  page.show = (name) => { const n = tabs.findIndex((t) => t[0] === name); if (n >= 0 && n !== tab) go(n); };
  page.shows = (name) => tabs[tab][0] === name;

  const keys = [['/', 'search the list'], ['Esc', 'leave the search; empty it'], ['j k ↓ ↑', 'next, previous row'], ['Enter', 'open the row'],
    ['1 – 9', 'the lists'], ['[ ]', 'list to the left, to the right'], ...page.keys, ['t', 'dark or light'],
    ['↑ ↓ ← → Enter ⌫', 'in the calling contexts: move, zoom, zoom out'], ['?', 'these keys']];
  $('keys').append(el('table', {}, el('tbody', {}, keys.map(([k, what]) => el('tr', {}, el('td', {}, el('kbd', {}, k)), el('td', {}, what))))),
    el('p', { class: 'note' }, 'The address keeps what is shown: copy it to show the same to others.'));
  const help = () => $('keys').open ? $('keys').close() : $('keys').showModal();
  $('help').addEventListener('click', help);
  const does = {
    '/': () => search.focus(), j: () => list.move(1), ArrowDown: () => list.move(1), k: () => list.move(-1), ArrowUp: () => list.move(-1),
    '[': () => go((tab + tabs.length - 1) % tabs.length), ']': () => go((tab + 1) % tabs.length), t: flip, '?': help,
    ...Object.fromEntries(page.keys.map(([key, , act]) => [key, act])),
  };
  document.addEventListener('keydown', (e) => {
    if (e.ctrlKey || e.altKey || e.metaKey) return;
    if (e.target === search) {
      if (e.key === 'Escape') { if (search.value) find(''); else search.blur(); }
      else if (e.key === 'Enter' || e.key === 'ArrowDown') { search.blur(); list.move(list.picked < 0 ? 1 : 0); }
      else return;
      e.preventDefault();
      return;
    }
    if ((e.key !== 'Enter' || e.target.tagName !== 'BUTTON') && list.key?.(e.key)) { e.preventDefault(); return; }
    if (does[e.key]) { does[e.key](); e.preventDefault(); return; }
    if (e.key === 'Enter' && e.target.tagName !== 'BUTTON' && list.shown && list.picked >= 0) { list.pick(list.picked, true); e.preventDefault(); return; }
    if (/^[1-9]$/.test(e.key) && Number(e.key) <= tabs.length) go(Number(e.key) - 1);
  });

  const restore = () => {
    search.value = view.get('find');
    page.restore?.();
    page.reopen(view.get('row'));
    show(Math.max(0, tabs.findIndex((t) => t[0] === view.get('list'))));
    list.sortAs?.(view.get('sort'));
    page.flames.restore();
    page.flames.search(search.value);
  };
  addEventListener('hashchange', restore);
  // A printed list has all its rows; what is longer than a screen is not cut.
  addEventListener('beforeprint', () => {
    list.drawn?.all();
    document.querySelectorAll('.listing').forEach((box) => box.drawn.all());
  });
  $('tabs').append(...buttons);
  restore();
};

