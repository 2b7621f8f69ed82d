// SPDX-License-Identifier: MIT
// Calling contexts: all of them as an icicle or a flame graph, those around one function (its
// callers on one side, what it calls on the other), and as a tree of rows.
//
// A node: { i, name, full, up, depth, below: [], and figures that add up }. The page says what the
// figures are (`fields`), and how nodes look:
//   { nodes: [{ up: index or -1, name, full, ... }], top: {fields of all}, fields: [name, ...],
//     totals: those of the fields that are with all below,
//     size(x): its place among others, weight(x): its width, about(x, whole): sentence,
//     label(x), paint(x): {style}, caption(root is below), choices: [Choice], legend: node,
//     open(x): a click on it }

// All contexts are one node that is no function.
const isAll = (x) => !x.up && !x.over;

const contextTree = (config) => {
  const top = { i: -1, up: null, name: 'all', full: 'all contexts', below: [], depth: 0, ...config.top };
  const nodes = config.nodes.map((x, i) => ({ ...x, i, below: [] }));
  for (const x of nodes) { x.up = x.up < 0 ? top : nodes[x.up]; x.depth = x.up.depth + 1; x.up.below.push(x); }
  for (const x of [top, ...nodes]) x.below.sort((a, b) => config.size(b) - config.size(a));
  return { top, nodes };
};

// All nodes of one function as one: below it what it calls, over it its callers, with what the
// function has in its calls from there. Where it calls itself the outermost one has all.
const around = (config, tree, full) => {
  const sum = (into, x, fields) => { for (const f of fields) into[f] += x[f]; };
  const fresh = (x, up, step) => ({ i: -1, f: x.f, up, name: x.name, full: x.full, below: [], kids: new Map(), depth: up ? up.depth + step : 0,
    ...Object.fromEntries(config.fields.map((f) => [f, 0])) });
  const child = (at, x, step, list) => {
    let y = at.kids.get(x.full + step);
    if (!y) { y = fresh(x, at, step); at.kids.set(x.full + step, y); list.push(y); }
    return y;
  };
  const isOutermost = (x) => { for (let y = x.up; y; y = y.up) if (y.full === full) return false; return true; };
  const found = tree.nodes.filter((x) => x.full === full && isOutermost(x));
  if (!found.length) return null;
  const top = fresh(found[0], null, 0);
  top.over = [];
  for (const x of found) {
    sum(top, x, config.fields);
    const waiting = x.below.map((y) => [y, top]);
    while (waiting.length) {
      const [y, at] = waiting.pop();
      const z = child(at, y, 1, at.below);
      sum(z, y, config.fields);
      for (const w of y.below) waiting.push([w, z]);
    }
    for (let y = x.up, at = top; y.up; y = y.up) {
      at = child(at, y, -1, at === top ? top.over : at.below);
      sum(at, x, config.totals);
    }
  }
  const waiting = [top];
  while (waiting.length) {
    const x = waiting.pop();
    for (const list of [x.below, x.over || []]) { list.sort((a, b) => config.size(b) - config.size(a)); waiting.push(...list); }
  }
  return top;
};

const noFlames = (why) => {
  $('flame').append(el('p', { class: 'note' }, why));
  return { search() {}, restore() {}, around() {}, has: () => false, next() {} };
};

class Flames {
  constructor(config, tree) {
    this.config = config; this.tree = tree; this.high = 20;
    this.whole = this.root = this.at = tree.top; this.words = ''; this.pieces = new Map();
    this.area = el('div', { class: 'flames', tabindex: '0', role: 'tree', 'aria-label': 'Calling contexts: arrows move, Enter zooms, Backspace zooms out' });
    this.line = el('p', { class: 'caption about', 'aria-live': 'polite' });
    this.caption = el('p', { class: 'caption' });
    this.shape = new Choice('shape', 'shape', [['icicle', 'icicle'], ['flame', 'flame']], () => this.draw());
    this.out = button('All contexts', () => { this.around(''); }, { hidden: '' });
    this.choices = [...config.choices, this.shape];
    this.area.addEventListener('keydown', (e) => this.key(e));
    this.area.addEventListener('mouseover', (e) => { const x = e.target.node; if (x) this.line.textContent = config.about(x, this.whole); });
    this.area.addEventListener('mouseleave', () => { this.line.textContent = config.about(this.at, this.whole); });
    $('flame').append(el('div', { class: 'bar' }, this.caption, this.out, this.choices.map((c) => c.node), config.legend || null), this.area, this.line);
    this.draw();
  }
  // To contexts of another kind.
  change(config) {
    this.config = { ...config, choices: this.config.choices, legend: this.config.legend };
    this.tree = contextTree(this.config);
    const full = this.whole.up === null && !this.whole.over ? '' : this.whole.full;
    this.whole = this.root = this.at = (full && around(this.config, this.tree, full)) || this.tree.top;
    view.put({ zoom: '' });  // that was a context of the other kind
    this.draw();
  }
  has(full) { return this.tree.nodes.some((x) => x.full === full); }
  found(x) { return this.words && x.full.toLowerCase().includes(this.words); }
  search(text) {
    this.words = text.trim().toLowerCase();
    for (const [x, piece] of this.pieces) piece.classList.toggle('found', !!this.found(x));
  }
  mark(x, see) {
    this.pieces.get(this.at)?.classList.remove('at');
    this.at = x;
    const piece = this.pieces.get(x);
    piece?.classList.add('at');
    if (see) piece?.scrollIntoView({ block: 'nearest' });
    this.line.textContent = this.config.about(x, this.whole);
  }
  piece(x, left, width, above) {
    const piece = el('div', { class: 'piece' + (above ? ' above' : '') + (width > 3 ? '' : ' thin') + (this.found(x) ? ' found' : ''), role: 'treeitem', title: this.config.about(x, this.whole),
      style: { left: left + '%', width: width + '%', ...this.config.paint(x) },
      on: { click: () => { this.zoom(x); this.config.open(x); } } }, width > 3 ? this.config.label(x) : '');
    piece.node = x;
    this.pieces.set(x, piece);
  }
  draw() {
    const { weight } = this.config;
    this.pieces = new Map();
    for (let x = this.root.up; x; x = x.up) this.piece(x, 0, 100, true);
    const all = weight(this.root) || 1;
    const waiting = [[this.root, 0]];
    while (waiting.length) {
      const [x, left] = waiting.pop();
      const width = 100 * weight(x) / all;
      if (width < 0.05) continue;
      this.piece(x, left, width, false);
      for (const list of [x.below, x.over || []]) {
        let from = left;
        for (const y of list) { waiting.push([y, from]); from += 100 * weight(y) / all; }
      }
    }
    let least = 0, most = 0;
    for (const x of this.pieces.keys()) { least = Math.min(least, x.depth); most = Math.max(most, x.depth); }
    const below = this.shape.value === 'flame';
    for (const [x, piece] of this.pieces) piece.style.top = (below ? most - x.depth : x.depth - least) * this.high + 'px';
    this.area.style.height = Math.min((most - least + 1) * this.high + 4, 4000) + 'px';
    this.area.replaceChildren(...this.pieces.values());
    this.caption.textContent = this.whole === this.tree.top ? this.config.caption(below) : 'Callers and callees of ' + this.whole.name;
    this.out.hidden = this.whole === this.tree.top;
    this.mark(this.pieces.has(this.at) ? this.at : this.root, false);
    if (below && this.root === this.tree.top) this.area.scrollTop = this.area.scrollHeight;
  }
  zoom(x) {
    this.root = this.at = x;
    this.draw();
    this.pieces.get(x)?.scrollIntoView({ block: 'nearest' });
    view.put({ zoom: x.i >= 0 ? x.i : '' });
  }
  // "": all contexts.
  around(full) {
    const top = full ? around(this.config, this.tree, full) : null;
    this.whole = this.root = this.at = top || this.tree.top;
    this.draw();
    this.pieces.get(this.whole)?.scrollIntoView({ block: 'nearest' });
    view.put({ around: top ? full : '', zoom: '' });
  }
  beside(x, by) {
    const all = !x.up ? [x] : x.up.over?.includes(x) ? x.up.over : x.up.below;
    return all[all.indexOf(x) + by] || x;
  }
  // Up or down on the screen.
  toward(by) {
    const x = this.at, step = this.shape.value === 'flame' ? -by : by;
    if (x.depth && (x.depth > 0) !== (step > 0)) return x.up;
    return (step < 0 && x === this.whole ? x.over : step < 0 && !x.depth ? null : x.below)?.[0] || x;
  }
  key(e) {
    const does = {
      ArrowUp: () => this.mark(this.toward(-1), true), ArrowDown: () => this.mark(this.toward(1), true),
      ArrowLeft: () => this.mark(this.beside(this.at, -1), true), ArrowRight: () => this.mark(this.beside(this.at, 1), true),
      Enter: () => { this.zoom(this.at); this.config.open(this.at); }, Backspace: () => this.root.up && this.zoom(this.root.up), Home: () => this.zoom(this.whole),
      Escape: () => this.around(''),
    }[e.key];
    if (!does || e.ctrlKey || e.altKey || e.metaKey) return;
    does();
    e.preventDefault();
    e.stopPropagation();
  }
  next() { this.shape.next(); }
  // Callers and callees of what is marked; of what they are shown of, all contexts again.
  aroundMarked() {
    if (this.at === this.whole) this.around('');
    else this.around(this.at.full);
  }
  restore() {
    const zoomed = parseInt(view.get('zoom'), 10);
    for (const c of this.choices) c.restore();
    const full = view.get('around'), zoom = this.tree.nodes[zoomed];
    if (full || this.whole !== this.tree.top) this.around(full);
    if (!full && (zoom || this.root !== this.tree.top)) this.zoom(zoom || this.tree.top);
  }
}

// --- the same as a tree of rows ----------------------------------------------------------------
// columns as those of a list; the name stands last, as deep as it is.
class Tree {
  constructor(top, columns, options) {
    this.top = top; this.columns = columns; this.options = options; this.opened = new Set(); this.words = ''; this.picked = -1; this.shown = [];
    for (let x = top; x.below.length && this.opened.size < 24; x = x.below[0]) this.opened.add(x);
    this.body = el('tbody');
    const box = el('div', { class: 'scroll' }, el('table', { role: 'treegrid' }, el('thead', {}, el('tr', {},
      columns.map((c) => el('th', { class: classOf(c), scope: 'col', title: c.title }, c.head)), el('th', { scope: 'col' }, 'function'))), this.body));
    this.note = el('p', { class: 'empty', hidden: '' }, 'Nothing matches.');
    this.node = el('div', { class: 'card' }, box, this.note);
    this.drawn = new Rows(box, this.body);
    this.draw(null);
  }
  filter(words) {
    if (words === this.words) return;
    this.words = words;
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    this.kept = null;
    if (wanted.length) {
      this.kept = new Set();
      const waiting = [this.top];
      while (waiting.length) {
        const x = waiting.pop();
        waiting.push(...x.below);
        if (wanted.every((w) => x.full.toLowerCase().includes(w))) for (let y = x; y && !this.kept.has(y); y = y.up) this.kept.add(y);
      }
    }
    this.draw(null);
  }
  kids(x) { return this.kept ? x.below.filter((y) => this.kept.has(y)) : x.below; }
  // What is searched for is shown with all its callers.
  isOpen(x) { return this.kept ? x.below.some((y) => this.kept.has(y)) : this.opened.has(x); }
  draw(keep) {
    this.shown = [];
    const waiting = [...this.kids(this.top)].reverse();
    while (waiting.length) {
      const x = waiting.pop();
      this.shown.push(x);
      if (this.isOpen(x)) waiting.push(...[...this.kids(x)].reverse());
    }
    const scrolled = this.drawn.box.scrollTop;
    this.picked = keep ? this.shown.indexOf(keep) : -1;
    this.drawn.begin(this.rows());
    if (keep) { this.drawn.reach(this.picked); this.drawn.box.scrollTop = scrolled; this.drawn.fill(); }
    this.note.hidden = this.shown.length > 0;
  }
  *rows() {
    for (const [n, x] of this.shown.entries()) {
      const open = x.below.length ? this.isOpen(x) : null;
      yield el('tr', { class: 'link' + (n === this.picked ? ' picked' : ''), 'aria-level': x.depth, 'aria-expanded': open === null ? null : String(open), on: { click: () => { this.pick(n); this.toggle(x, !open); } } },
        this.columns.map((c) => el('td', { class: classOf(c) }, c.show(x))),
        el('td', { class: 'name' }, el('span', { class: 'clip', title: x.full, style: { paddingLeft: 'calc(' + Math.min(x.depth - 1, 40) + ' * var(--step))' } },
          el('span', { class: 'twist soft' }, open === null ? '' : open ? '▾' : '▸'), x.name)));
    }
  }
  toggle(x, open) {
    if (this.kept || !x.below.length) return;
    if (open) this.opened.add(x); else this.opened.delete(x);
    this.draw(x);
  }
  pick(n) {
    if (n < 0 || n >= this.shown.length) return;
    this.drawn.reach(n);
    this.body.children[this.picked]?.classList.remove('picked');
    this.picked = n;
    this.body.children[n].classList.add('picked');
    this.body.children[n].scrollIntoView({ block: 'nearest' });
  }
  move(by) { this.pick(Math.max(0, Math.min(this.shown.length - 1, this.picked + by))); }
  key(key) {
    const x = this.shown[this.picked];
    if (!x) return false;
    if (key === 'ArrowRight') { if (this.isOpen(x)) this.move(1); else this.toggle(x, true); return true; }
    if (key === 'ArrowLeft') { if (this.opened.has(x)) this.toggle(x, false); else this.pick(this.shown.indexOf(x.up)); return true; }
    if (key === 'Enter') { this.options.open(x); return true; }
    return false;
  }
}

