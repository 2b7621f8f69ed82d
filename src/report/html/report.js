// SPDX-License-Identifier: MIT
// The HTML report's behaviour. All text goes in as text nodes; the page has no markup made from data.
// report/html_data.h says what the data's columns are.
'use strict';
(() => {
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

  // --- figures -------------------------------------------------------------------------------
  const count = (n) => {
    if (n < 1000) return String(Math.round(n));
    const units = ['k', 'M', 'G', 'T', 'P', 'E'];
    let u = -1;
    while (n >= 999.5 && u < 5) { n /= 1000; u++; }
    return n.toFixed(n < 9.995 ? 2 : n < 99.95 ? 1 : 0) + ' ' + units[u];
  };
  const whole = (n) => Math.round(n).toLocaleString('en');
  const many = (n, what) => whole(n) + ' ' + what + (n === 1 ? '' : 's');
  const percent = (x) => (100 * x).toFixed(1) + '%';
  const seconds = (s) => s >= 1 ? s.toFixed(2) + ' s' : s >= 1e-3 ? (s * 1e3).toFixed(1) + ' ms' : (s * 1e6).toFixed(0) + ' µs';
  const bar = (x, label) => el('span', { class: 'share' },
    el('i', { style: { width: Math.max(0, Math.min(100, 100 * x)) + '%' } }), el('em', {}, label ?? percent(x)));
  const total = Math.max(1, D.coverage.attributed);

  const F = D.functions.map((f, i) => ({ i, name: f[0], module: f[1], offset: f[2], where: f[3], self: f[4],
    incl: f[5], calls: f[6], loops: f[7], full: f[8], user: f[9], kernel: f[10] }));
  const time = D.time;  // null: not measured
  // Inclusive counts may be worked out from call pairs instead of followed.
  const estimated = D.run.options.some((o) => o[0] === 'inclusive' && o[1] === 'estimated');
  const label = (i) => i < 0 ? '(code without a name)' : F[i].name;

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
    more() {
      const made = [];
      for (let next; made.length < 40 && !(next = this.rest.next()).done;) made.push(next.value);
      this.body.append(...made);
      return made.length > 0;
    }
    // As far as can be seen, and half as far again. Before the box is on the page nothing can be.
    fill() {
      const box = this.box;
      while (box.clientHeight && box.scrollHeight < box.scrollTop + 1.5 * box.clientHeight && this.more());
    }
    reach(n) { while (this.body.children.length <= n && this.more()); }
  }

  // --- a list: columns, sorting, search, rows that can be picked -------------------------------
  // column: { key(row): value to sort and search by, head, show(row): node or text, num, first: -1 }
  class List {
    constructor(rows, columns, options) {
      this.rows = rows; this.columns = columns; this.options = options || {};
      this.sort = null; this.down = true; this.words = '';
      this.picked = -1;
      this.body = el('tbody');
      this.head = columns.map((c, n) => el('th', { class: c.num ? 'n' : null, scope: 'col', title: c.title },
        el('button', { type: 'button', on: { click: () => this.order(n) } }, c.head)));
      this.note = el('p', { class: 'empty', hidden: '' }, 'Nothing matches.');
      const box = el('div', { class: 'scroll' }, el('table', {}, el('thead', {}, el('tr', {}, this.head)), this.body));
      this.node = el('div', { class: 'card' }, box, this.note);
      this.drawn = new Rows(box, this.body);
      this.draw();
    }
    order(n) {
      this.down = this.sort === n ? !this.down : !!this.columns[n].num;
      this.sort = n;
      this.head.forEach((h, k) => {
        if (k === n) h.setAttribute('aria-sort', this.down ? 'descending' : 'ascending');
        else h.removeAttribute('aria-sort');
      });
      this.draw();
    }
    filter(words) { if (words !== this.words) { this.words = words; this.draw(); } }
    matches(words) {
      const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
      if (!this.texts) this.texts = this.rows.map((r) => this.columns.map((c) => c.text ? c.text(r) : '').join(' ').toLowerCase());
      return this.rows.filter((_, i) => wanted.every((w) => this.texts[i].includes(w)));
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
      const again = this.options.current ? rows.findIndex(this.options.current) : -1;
      if (again >= 0) this.mark(again);
    }
    *nodes() {
      const can = !!this.options.open;
      for (const [n, r] of this.shown.entries())
        yield el('tr', { class: [can && 'link', n === this.picked && 'picked'].filter(Boolean).join(' ') || null, on: { click: () => this.pick(n, true) } },
          this.columns.map((c) => el('td', { class: c.num ? 'n' : c.mono ? 'name' : null }, c.show(r))));
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
  // A single time is not known more exactly than the clock's step.
  const steps = (head, get) => num(head, get, { show: (r) => get(r) < (D.run.clock_step || 0) ? '<' + Math.round(D.run.clock_step) : count(get(r)) });
  const share = (head, get, more) => ({ head, key: get, show: (r) => bar(get(r)), num: true, ...more });
  // Of what no sample met only the time is known.
  const met = (own) => ({ show: (r) => own(r) || !time ? bar(own(r) / total) : '-' });

  // --- one function --------------------------------------------------------------------------
  const related = (rows, other, title) => {
    const most = 14;
    const box = el('div', {}, el('h3', {}, title + (rows.length > most ? ' (' + rows.length + ')' : '')));
    if (!rows.length) { box.append(el('p', { class: 'note' }, 'No calls were counted.')); return box; }
    box.append(el('div', { class: 'card' }, el('table', {}, el('tbody', {}, rows.slice(0, most).map((p) =>
      el('tr', { class: p[other] >= 0 ? 'link' : null, on: { click: () => p[other] >= 0 && open(p[other]) } },
        el('td', { class: 'name' }, el('span', { class: 'clip', title: p[other] < 0 ? '' : F[p[other]].full }, (p[4] ? '*\u00a0' : '') + label(p[other]))),
        el('td', { class: 'n', title: many(p[2], 'call') }, count(p[2]) + ' ×'),
        el('td', { class: 'n', title: whole(p[3]) + ' instructions below' }, bar(p[3] / total, count(p[3])))))))));
    return box;
  };
  const heat = (x) => ({ background: x > 0 ? 'color-mix(in srgb, var(--warm) ' + Math.min(100, Math.round(18 + 82 * x)) + '%, transparent)' : '' });

  // A table of code; `rows` yields its lines.
  const codeTable = (heads, rows) => {
    const body = el('tbody');
    const box = el('div', { class: 'listing' }, el('table', {}, el('thead', {}, el('tr', {},
      heads.map((h, n) => el('th', { class: n < 3 ? 'n' : null }, h)))), body));
    box.drawn = new Rows(box, body);
    box.drawn.begin(rows);
    return box;
  };
  function* sourceRows(code) {
    const most = Math.max(1, ...code.lines.map((l) => l[2]));
    let file = null, last = 0;
    for (const [path, line, instr, runs, has, body] of code.lines) {
      if (path !== file) {
        yield el('tr', { class: 'at' }, el('td', { colspan: 4 }, path));
        file = path;
      } else if (line > last + 1) yield el('tr', { class: 'idle' }, el('td'), el('td'), el('td', { class: 'n' }, '⋯'), el('td'));
      last = line;
      const share = instr / most;
      yield el('tr', { class: instr ? null : 'idle' },
        el('td', { class: 'n', title: whole(instr), style: heat(share) }, has ? count(instr) : ''),
        el('td', { class: 'n', title: whole(runs) }, has ? count(runs) : ''),
        el('td', { class: 'n soft' }, String(line)),
        el('td', {}, body === null ? '(source not on this host)' : body));
    }
  }
  function* codeRows(code) {
    const most = Math.max(1, ...code.insns.map((x) => x[1]));
    let line = -2;
    for (let i = 0; i < code.insns.length; i++) {
      const [offset, n, body, taken, at, details, inlined] = code.insns[i];
      let idle = i;
      while (idle < code.insns.length && code.insns[idle][1] === 0) idle++;
      if (idle - i > 8) {
        yield el('tr', { class: 'idle' }, el('td', { class: 'n' }, '–'), el('td'), el('td', { class: 'n' }, '+0x' + offset.toString(16)),
          el('td', {}, '(' + (idle - i) + ' instructions that did not execute)'));
        i = idle - 1;
        continue;
      }
      if (at >= 0 && at !== line) {
        const l = code.lines[at];
        yield el('tr', { class: 'at' }, el('td', { colspan: 4 }, l[0].split('/').pop() + ':' + l[1] +
          (inlined ? '  in ' + inlined : '') + (l[5] ? '   ' + l[5].trim() : '')));
        line = at;
      }
      yield el('tr', { class: n ? null : 'idle' },
        el('td', { class: 'n', title: whole(n), style: heat(n / most * .9) }, n ? count(n) : '–'),
        el('td', { class: 'n', title: taken === null ? null : 'branch taken' }, taken === null ? '' : percent(taken)),
        el('td', { class: 'n soft' }, '+0x' + offset.toString(16)), el('td', {}, body, details ? el('span', { class: 'soft' }, '   ' + details) : null));
    }
  }

  const detail = (i) => {
    const f = F[i];
    const code = D.code[i];
    const callers = D.pairs.filter((p) => p[1] === i), callees = D.pairs.filter((p) => p[0] === i);
    const box = el('div', { class: 'detail' }, el('h2', {}, f.full),
      el('div', { class: 'soft' }, [f.where, f.module + '+0x' + f.offset.toString(16)].filter(Boolean).join(' · ')),
      el('div', { class: 'soft' }, (time ? seconds(f.user) + ' of processor time, ' + seconds(f.kernel) + " of the kernel's, " : '') + whole(f.self) + ' instructions of its own (' + percent(f.self / total) + '), ' +
        (estimated ? 'about ' + count(f.incl) : whole(f.incl)) + ' with what it calls, ' + many(f.calls, 'call') + ', ' + many(f.loops, 'loop iteration')),
      el('div', { class: callers.length && callees.length ? 'duo' : 'duo bare' },
        related(callers, 0, 'Called by'), related(callees, 1, 'Calls')));
    if (!code) {
      box.append(el('p', { class: 'note' }, 'Source and code are here for the hottest functions only: shadowprof annotate shows this one.'));
      return box;
    }
    for (const note of code.notes) box.append(el('p', { class: 'note' }, note));
    if (code.lines.some((l) => l[5] !== null)) box.append(el('h3', {}, 'Source'), codeTable(['instr', 'times', 'line', 'source'], sourceRows(code)));
    if (code.insns.length) box.append(el('h3', {}, 'Code'), codeTable(['count', 'taken', 'offset', 'instruction'], codeRows(code)));
    return box;
  };

  // --- the lists -----------------------------------------------------------------------------
  const L = D.lists;
  let current = F.length ? 0 : -1;
  const side = el('div', { class: 'card side' });
  const showDetail = (i) => {
    current = i;
    side.replaceChildren(el('div', { class: 'scroll', style: { maxHeight: '88vh' } }, detail(i)));
    fillListings();
  };
  const fillListings = () => side.querySelectorAll('.listing').forEach((box) => box.drawn.fill());
  const chips = (items) => el('ul', { class: 'chips' }, items.map((x) => el('li', { title: x }, x)));
  const shares = (list) => chips(list.slice(0, 4).map((v) => v[0] + '  ' + percent(v[1])));

  const functionsTab = () => {
    const list = new List(F.slice(0, D.own_list), [
      ...(time ? [share('time', (f) => (f.user + f.kernel) / time.total_s, { title: "processor time of its own, with the kernel's for it" })] : []),
      share('self', (f) => f.self / total, { title: 'instructions of its own, of all', ...met((f) => f.self) }),
      share(estimated ? 'total ≈' : 'total', (f) => f.incl / total, { title: 'with what it calls' + (estimated ? ', estimated from calls' : '') }),
      num('calls', (f) => f.calls), num('loops', (f) => f.loops, { title: 'iterations of its loops' }),
      text('function', (f) => f.name, { text: (f) => f.full + ' ' + f.name, show: (f) => el('span', { class: 'clip', title: f.full }, f.name) }),
      text('where', (f) => f.where || f.module, { text: (f) => f.where + ' ' + f.module, show: (f) => el('span', { class: 'short soft', title: f.module }, f.where || f.module) }),
    ], { open: (f) => showDetail(f.i), current: (f) => f.i === current });
    if (current >= 0) showDetail(current);
    else side.replaceChildren(el('p', { class: 'empty' }, 'No function has a name.'));
    list.wrap = el('div', { class: 'panes' }, list.node, side);
    return list;
  };
  const classNames = ['L1', 'L2', 'L3', 'DRAM', 'beyond'];
  const classBar = (c) => el('span', { class: 'stack', title: c.map((x, i) => classNames[i] + ' ' + percent(x)).join(', ') },
    c.map((x, i) => el('i', { style: { width: 100 * x + '%', background: ['var(--hue1)', 'var(--hue0)', 'var(--hue2)', 'var(--hot)', 'var(--soft)'][i] } })));
  // bars: [from the left, height]
  const drawingOf = (bars, width, wide, high) => {
    const drawing = $('drawing').content.firstChild.cloneNode(true);
    drawing.setAttribute('viewBox', '0 0 ' + width + ' ' + high);
    drawing.setAttribute('width', width);
    drawing.setAttribute('height', high);
    drawing.firstChild.setAttribute('d', bars.map(([x, b]) => 'M' + x.toFixed(1) + ' ' + high + 'v-' + b.toFixed(1) + 'h' + wide + 'v' + b.toFixed(1) + 'z').join(''));
    return drawing;
  };
  const histogram = (h) => {
    const most = Math.max(1, ...h.map((x) => x[1])), high = 22;
    const bars = h.slice(0, 40).map((x, i) => [6 * i, Math.max(1, high * Math.sqrt(x[1] / most))]);
    return el('span', { title: h.map((x) => x[0] + '+ cycles: ' + x[1]).join('\n') }, drawingOf(bars, 6 * bars.length, 5, high));
  };
  // When samples were taken: row = [at us, samples, instructions, paused us].
  const timeline = (rows, whole_s) => {
    const width = 1000, high = 56, end = Math.max(1e6 * whole_s, rows[rows.length - 1][0], 1);
    const lane = (name, n, show) => {
      const most = Math.max(1, ...rows.map((r) => r[n]));
      const bars = rows.map((r) => [(width - 2) * r[0] / end, Math.max(1, high * r[n] / most)]);
      const drawing = drawingOf(bars, width, 1.5, high);
      drawing.removeAttribute('width');
      drawing.setAttribute('preserveAspectRatio', 'none');
      return el('div', {}, el('div', { class: 'soft' }, name + ', at most ' + show(most)), drawing);
    };
    return el('section', { class: 'card timeline', 'aria-label': 'Samples over time' }, el('h3', {}, 'Samples over time'),
      lane('instructions of each', 2, count), lane('pause of each', 3, (us) => seconds(us / 1e6)),
      el('div', { class: 'soft ends' }, el('span', {}, '0 s'), el('span', {}, seconds(end / 1e6))));
  };

  // Accesses to memory that keep the processor waiting, or need not have been made.
  const accessPairs = (rows) => new List(rows, [
    num('count', (p) => p[1]), share('share', (p) => p[3], { title: 'of the executions of the access' }),
    num('executions', (p) => p[2]), num('distance', (p) => p[4], { title: 'in instructions, the mean' }),
    text('kind', (p) => p[0].replaceAll('_', ' '), { mono: false }), text('access', (p) => p[5]), text('instruction', (p) => p[6]),
    text('after', (p) => p[7]), text('instruction', (p) => p[8])]);

  const tabs = [
    ['Functions', D.sizes.functions, functionsTab],
    ['Calls', D.sizes.calls, () => new List(L.calls, [
      share('share', (c) => c[4]), num('count', (c) => c[3]), num('instr below', (c) => c[5]),
      text('call site', (c) => c[0]), text('callee', (c) => c[1]), text('', (c) => c[2] ? 'computed' : '', { mono: false })])],
    ['Edges', D.sizes.edges, () => new List(L.edges, [
      share('share', (e) => e[4]), num('count', (e) => e[3]), text('kind', (e) => e[2].replace('_', ' '), { mono: false }),
      text('from', (e) => e[0]), text('to', (e) => e[1])])],
    ['Paths', D.sizes.paths, () => new List(L.paths, [
      share('share', (p) => p[0], { title: 'of all instructions' }), share('flow', (p) => p[1], { title: 'of all path executions' }),
      num('count', (p) => p[2]), num('instr', (p) => p[3]), num('blocks', (p) => p[5].length),
      { head: 'route', key: (p) => p[5].join(' '), text: (p) => p[5].join(' ') + ' ' + p[4], mono: true,
        show: (p) => { const route = p[5].map((b) => b.replace('  ', ' ')); const runs = [];
          for (const b of route) { const e = runs[runs.length - 1]; if (e && e[0] === b) e[1]++; else runs.push([b, 1]); }
          return el('div', {}, p[4] ? el('div', { class: 'soft' }, 'from ' + p[4]) : null,
            chips(runs.slice(0, 24).map(([b, n]) => n > 1 ? b + ' ×' + n : b).concat(runs.length > 24 ? ['⋯ ' + (runs.length - 24) + ' more'] : []))); } }])],
    ['Loads', D.sizes.loads, () => new List(L.loads, [
      num('cycles lost', (l) => l[6]), num('count', (l) => l[1]), num('mean', (l) => l[2]),
      num('±', (l) => l[10], { title: 'the mean\'s error: by chance, or what cold caches of replicas may add' }), steps('p50', (l) => l[3]), steps('p99', (l) => l[4]),
      { head: 'L1 L2 L3 DRAM', key: (l) => l[5][3], show: (l) => classBar(l[5]), title: 'where it was served from, in the order of the colours' },
      { head: 'cycles', key: (l) => l[2], show: (l) => histogram(l[9]) },
      text('load', (l) => l[0]), text('by', (l) => l[11], { mono: false, title: 'kind of instruction' }), text('addresses', (l) => l[7] + (l[8] ? ', stride ' + l[8] : ''), { mono: false })])],
    ['Load pages', D.sizes.load_pages, () => new List(L.load_pages, [
      text('from', (p) => p[0], { mono: false, title: 'where these loads were served from' }), num('timed', (p) => p[1]),
      share('share', (p) => p[2], { title: 'of all timed loads from there' }), text('page', (p) => p[3]), text('load', (p) => p[4])])],
    ['Load values', D.sizes.load_values, () => new List(L.load_values, [
      text('from', (v) => v[0], { mono: false, title: 'where these loads were served from' }), num('timed', (v) => v[1]),
      share('share', (v) => v[2], { title: 'of all timed loads from there' }), text('value', (v) => v[3]), text('load', (v) => v[4])])],
    ['Hazards', D.sizes.hazards, () => accessPairs(L.hazards)],
    ['Waste', D.sizes.waste, () => accessPairs(L.waste)],
    ['Sharing', D.sizes.sharing, () => new List(L.sharing, [
      num('count', (s) => s[1], { title: 'how often a line can have gone from one thread to the other, at most' }),
      num('stretches', (s) => s[2], { title: 'of time in which both accessed one line' }), num('lines', (s) => s[3], { title: '64: so many or more' }),
      text('kind', (s) => s[0].replaceAll('_', ' '), { mono: false }), text('writer', (s) => s[4]), text('instruction', (s) => s[5]),
      text('other thread', (s) => s[6]), text('instruction', (s) => s[7]), text('line', (s) => s[8]),
      text('bytes', (s) => s[9].join(' ') + ' / ' + s[10].join(' '))])],
    ['Data streams', D.sizes.data_streams, () => new List(L.data_streams, [
      share('share', (s) => s[0], { title: 'of all references that were looked at' }), num('streams', (s) => s[1]),
      num('times', (s) => s[2]), num('length', (s) => s[3], { title: 'in references, of the hottest one' }), num('lines', (s) => s[4]),
      num('within', (s) => s[5], { title: 'lines from the lowest to the highest' }), text('order', (s) => s[6], { mono: false }),
      share('together', (s) => s[7], { title: 'the share of the references to these lines' }), text('advice', (s) => s[8], { mono: false }),
      text('instructions', (s) => s[9].map((i) => i.slice(0, 2).join('  ')).join('; '))])],
    ['Probes', D.sizes.probes, () => new List(L.probes, [
      text('probe', (p) => p[0]), share('share', (p) => p[1], { title: 'of all that the probe has counted' }),
      num('count', (p) => p[3]), text('what', (p) => p[4].map((n) => n.join(' = ')).join(', '))])],
    ['Plug-ins', D.sizes.plugins, () => new List(L.plugins, [
      text('plug-in', (p) => p[0]), share('share', (p) => p[1], { title: 'of the weights of all its rows' }),
      num('weight', (p) => p[2]), text('of', (p) => p[3], { mono: false }), text('what', (p) => p[4].map((n) => n.join(' = ')).join(', '))])],
    ['Values', D.sizes.values, () => new List(L.values, [
      num('count', (v) => v[3]), share('top value', (v) => v[4]), share('same', (v) => v[6], { title: 'equal to the one before' }),
      share('stride', (v) => v[7], { title: 'as far from the one before as that one; of integers' }), num('distinct', (v) => v[8]),
      { head: 'values', key: (v) => v[4], text: (v) => v[10].map((x) => x[0]).join(' '), show: (v) => shares(v[10]) },
      text('type', (v) => v[12], { mono: false, title: 'of a result in a vector register; nothing: an integer' }),
      text('instruction', (v) => v[2], { show: (v) => el('span', { class: 'whole' }, v[2]) }), text('where', (v) => v[0] + (v[1] ? ', returning to ' + v[1] : '')),
      { head: '', key: (v) => v[9], text: (v) => v[9] ? 'semi-invariant: ' + v[11] : '', show: (v) => el('span', { class: 'whole hot' }, v[9] ? 'semi-invariant: ' + v[11] : '') }])],
    ['Arguments', D.sizes.arguments, () => new List(L.arguments, [
      num('calls', (a) => a[4]), share('top value', (a) => a[5]),
      { head: 'values', key: (a) => a[5], text: (a) => a[6].map((x) => x[0]).join(' '), show: (a) => shares(a[6]) },
      text('argument', (a) => a[2] + (a[3] ? ' (size)' : ''), { mono: false }), text('function', (a) => a[1]), text('call site', (a) => a[0]),
      text('what to do', (a) => a[7], { mono: false })])],
    ['Indirect', D.sizes.targets, () => new List(L.targets, [
      num('count', (t) => t[2]), num('targets', (t) => t[3]), text('branch', (t) => t[0]),
      { head: 'goes to', key: (t) => t[4].length ? t[4][0][1] : 0, text: (t) => t[4].map((x) => x[0]).join(' '), mono: true,
        show: (t) => el('div', {}, t[4].slice(0, 5).map((x) => el('div', {}, bar(x[1]), '  ' + x[0]))) }])],
    ['Contexts', D.sizes.contexts, () => new List(L.contexts, [
      share('share', (c) => c[0]), num('instr', (c) => c[1]), num('calls', (c) => c[2]),
      { head: 'callers, function', key: (c) => c[3].join(' '), text: (c) => c[3].join(' '), mono: true, show: (c) => chips(c[3]) }])],
    ['Inlined', D.sizes.inlined, () => new List(L.inlined, [
      ...(time ? [share('time', (f) => (f[7] + f[8]) / time.total_s, { title: "processor time of its own, with the kernel's for it; a part of that of the functions it is in" })] : []),
      share('self', (f) => f[3] / total, { title: 'instructions of its own, of all; a part of those of the functions it is in', ...met((f) => f[3]) }),
      share(estimated ? 'total ≈' : 'total', (f) => f[4] / total, { title: 'with what was inlined into it, and what it calls' }),
      num('places', (f) => f[5], { title: 'calls that it was put in the place of' }),
      text('function', (f) => f[0], { text: (f) => f[6] + ' ' + f[0], show: (f) => el('span', { class: 'clip', title: f[6] }, f[0]) }),
      text('where', (f) => f[2] || f[1], { text: (f) => f[2] + ' ' + f[1], show: (f) => el('span', { class: 'short soft', title: f[1] }, f[2] || f[1]) })])],
    ['Run', null, () => runTab()],
  ].filter((t) => t[1] === null || t[1] > 0 || t[0] === 'Functions');

  const facts = (title, rows) => el('div', { class: 'card' }, el('h3', {}, title),
    rows.length ? el('table', {}, el('tbody', {}, rows.map((r) => el('tr', {}, el('td', {}, r[0]), el('td', { class: 'n' }, r[1]))))) :
      el('p', { class: 'empty' }, 'none'));
  const words = (s) => s.replace(/_/g, ' ');
  const ranked = (pairs) => [...pairs].sort((a, b) => b[1] - a[1]).map((p) => [words(p[0]), whole(p[1])]);
  const runTab = () => {
    const c = D.coverage, o = D.overhead, r = D.run;
    const sampled = r.mode !== 'full';
    const grid = el('div', { class: 'grid' },
      facts('Run', [['command', el('span', { class: 'name' }, r.command)], ['mode', r.mode], ['engine', r.engine], ['started', r.started],
        ['duration', seconds(r.duration_s)], ['end', r.end], ['host', r.cpu + ', ' + r.cores + ' cores'], ['kernel', r.kernel]]),
      facts('Coverage', [['samples', whole(c.samples)], ['instructions profiled', whole(c.profiled)],
        ['instructions in all' + (c.estimated ? ' (estimated)' : ''), whole(c.total)], ['share', c.share === null ? 'not known' : percent(c.share)],
        ...ranked(c.dropped).map((x) => ['dropped: ' + x[0], x[1]]), ...ranked(c.events)]),
      facts('What ended samples', ranked(c.ended)),
      facts(sampled ? 'Overhead' : 'Cost', [...(sampled ? [['budget', percent(o.budget)], ['estimated', percent(o.share)], ['pauses, in all', seconds(o.pause[0])],
        ['longest pause', seconds(o.pause[1])], ['median, 99 %', seconds(o.pause[2]) + ', ' + seconds(o.pause[3])], ['forks', whole(o.forks)], ['extra page faults', whole(o.faults)]] : []),
        ['CPU of the program', seconds(o.program_cpu_s)], ['CPU of the engine', seconds(o.engine_cpu_s)], ['CPU of collectors', seconds(o.collector_cpu_s)],
        ['translated blocks', whole(o.blocks)], ['translation', seconds(o.translation_s)]]),
      facts('Stops of the program', ranked(o.stops)),
      facts('System calls', D.syscalls.names.sort((a, b) => b[1] - a[1]).map((s) => [s[0], whole(s[1]) + (s[2] ? ', ended ' + whole(s[2]) + ' samples' : '')])),
      facts('Options', r.options));
    const all = o.timeline.length ? el('div', {}, timeline(o.timeline, r.duration_s), grid) : grid;
    return { wrap: all, node: all, filter() {}, move() {}, matches: () => [] };
  };

  // --- summary -------------------------------------------------------------------------------
  const summary = () => {
    const c = D.coverage, o = D.overhead, r = D.run;
    $('command').textContent = r.command || '(no command recorded)';
    $('command').title = r.command;
    document.title = 'shadowprof: ' + (r.command.split(' ')[0].split('/').pop() || 'profile');
    $('meta').textContent = [r.mode + ' mode', r.started.replace('T', ' ').replace(/Z$/, ' UTC'), seconds(r.duration_s), r.end, r.cpu].filter(Boolean).join(' · ');
    const tile = (value, name, title) => el('div', { class: 'tile', title }, el('b', {}, value), el('span', {}, name));
    const tiles = [
      tile(count(c.total), 'instructions' + (c.estimated ? ' (estimated)' : ''), whole(c.total)),
      tile(c.share === null ? 'part' : percent(c.share), D.exact ? 'profiled: exact counts' : 'of them profiled', whole(c.profiled) + ' instructions'),
    ];
    if (r.mode !== 'full') {
      tiles.push(tile(whole(c.samples), c.samples === 1 ? 'sample' : 'samples'), tile(percent(o.share), 'overhead (budget ' + percent(o.budget) + ')'),
        tile(seconds(o.pause[1]), 'longest pause; ' + seconds(o.pause[0]) + ' in all'));
      const budget = (c.ended.find((e) => e[0] === 'budget') || [0, 0])[1];
      const others = [...c.ended].filter((e) => e[0] !== 'budget').sort((a, b) => b[1] - a[1]);
      const all = c.ended.reduce((s, e) => s + e[1], 0);
      if (all && budget < all * 0.7 && others.length) tiles.push(tile(percent(others[0][1] / all), 'of samples ended early: ' + words(others[0][0])));
    }
    tiles.push(tile(whole(D.sizes.functions), 'functions'), tile(whole(D.sizes.blocks), 'blocks, ' + whole(D.sizes.edges) + ' edges'));
    $('tiles').append(...tiles);
  };

  // Files, below them their functions, below those what was inlined into them: widths are
  // instructions of their own. No stack is claimed.
  const where = () => {
    const box = $('where');
    const least = total * 0.004;
    const leastLabel = 0.03;  // less has room for a letter or two, which name nothing
    const modules = new Map();
    for (const f of F) {
      if (!modules.has(f.module)) modules.set(f.module, []);
      modules.get(f.module).push(f);
    }
    const sums = [...modules].map(([name, fs]) => [name, fs.reduce((s, f) => s + f.self, 0), fs]).filter((m) => m[1] >= least).sort((a, b) => b[1] - a[1]);
    if (!sums.length) return;
    const piece = (i, title, n, click) => el(click ? 'button' : 'div', { class: 'piece', type: click ? 'button' : null, title: title + '\n' + whole(n) + ' instructions, ' + percent(n / total),
      tabindex: click ? '-1' : null, style: { width: 100 * n / total + '%', background: 'var(--hue' + i % 6 + ')' }, on: click ? { click } : {} }, n / total < leastLabel ? '' : title);
    const gap = (n) => n > 0 ? el('div', { style: { width: 100 * n / total + '%' } }) : null;
    const files = el('div', { class: 'lane deep' }), names = el('div', { class: 'lane' }), inlined = el('div', { class: 'lane' });
    let any = false;
    sums.forEach(([name, n, fs], i) => {
      files.append(piece(i, name, n));
      let rest = n;
      for (const f of fs.sort((a, b) => b.self - a.self)) {
        if (f.self < least) continue;
        rest -= f.self;
        names.append(piece(i, f.name, f.self, () => open(f.i)));
        let left = f.self;
        const code = D.code[f.i];
        if (code) {
          const parts = new Map();
          for (const x of code.insns) if (x[6]) parts.set(x[6], (parts.get(x[6]) || 0) + x[1]);
          for (const [part, m] of [...parts].sort((a, b) => b[1] - a[1])) {
            if (m < least || m > left) continue;
            left -= m; any = true;
            inlined.append(piece(i + 1, part, m, () => open(f.i)));
          }
        }
        inlined.append(gap(left) ?? '');
      }
      names.append(gap(rest) ?? ''); inlined.append(gap(rest) ?? '');
    });
    box.append(el('p', { class: 'caption' }, 'Where instructions were executed: files, their functions' + (any ? ', code inlined into them' : '')), files, names);
    if (any) box.append(inlined);
  };

  // Calling contexts: callers above what they call; widths are instructions with all below.
  const flame = () => {
    const C = D.contexts, high = 20;
    const box = $('flame');
    if (!C.rows.length) {
      box.append(el('p', { class: 'note' }, 'This profile has no calling contexts: shadow mode and --exact-inclusive collect them.'));
      return { search() {} };
    }
    const nodes = C.rows.map((r, i) => ({ i, up: r[0], name: C.names[r[1]][0], full: C.names[r[1]][1], n: r[2], own: r[3], calls: r[4], below: [], depth: 0 }));
    const top = { i: -1, up: null, name: 'all', full: 'all contexts', n: Math.max(1, C.all), own: 0, calls: 0, below: [], depth: 0 };
    for (const x of nodes) { const up = x.up < 0 ? top : nodes[x.up]; x.up = up; x.depth = up.depth + 1; up.below.push(x); }
    for (const x of [top, ...nodes]) x.below.sort((a, b) => b.n - a.n);
    const byName = new Map(F.map((f) => [f.full, f.i]));
    let root = top, at = top, words = '', pieces = new Map();
    const area = el('div', { class: 'flames', tabindex: '0', role: 'tree', 'aria-label': 'Calling contexts: arrows move, Enter zooms, Backspace zooms out' });
    const line = el('p', { class: 'caption', 'aria-live': 'polite' });
    const about = (x) => x.full + ': ' + percent(x.n / top.n) + ' of ' + count(top.n) + ' instructions' +
      (x === top ? '' : ', ' + percent(x.own / top.n) + ' its own' + (x.calls ? ', ' + many(x.calls, 'call') : ''));
    const hue = (name) => { let h = 0; for (let i = 0; i < name.length; i++) h = (h * 31 + name.charCodeAt(i)) % 997; return 'var(--hue' + h % 6 + ')'; };
    const found = (x) => words && x.full.toLowerCase().includes(words);
    const mark = (x) => {
      pieces.get(at)?.classList.remove('at');
      at = x;
      const piece = pieces.get(x);
      piece?.classList.add('at');
      piece?.scrollIntoView({ block: 'nearest' });
      line.textContent = about(x);
    };
    const draw = () => {
      pieces = new Map();
      const made = [];
      let deepest = 0;
      const put = (x, left, width, above) => {
        deepest = Math.max(deepest, x.depth);
        const piece = el('div', { class: 'piece' + (above ? ' above' : '') + (found(x) ? ' found' : ''), role: 'treeitem', title: about(x),
          style: { left: left + '%', width: width + '%', top: x.depth * high + 'px', background: x.own < 0 ? '' : hue(x.name) },
          on: { click: () => { zoom(x); if (byName.has(x.full)) open(byName.get(x.full)); } } }, width > 3 ? x.name : '');
        pieces.set(x, piece);
        made.push(piece);
      };
      for (let x = root.up; x; x = x.up) put(x, 0, 100, true);
      const waiting = [[root, 0]];
      while (waiting.length) {
        const [x, left] = waiting.pop();
        const width = 100 * x.n / root.n;
        if (width < 0.05) continue;
        put(x, left, width, false);
        let from = left;
        for (const y of x.below) { waiting.push([y, from]); from += 100 * y.n / root.n; }
      }
      area.style.height = Math.min((deepest + 1) * high + 4, 4000) + 'px';
      area.replaceChildren(...made);
      mark(pieces.has(at) ? at : root);
    };
    const zoom = (x) => { root = x; at = x; draw(); };
    const beside = (x, by) => { const all = x.up ? x.up.below : [x]; return all[all.indexOf(x) + by] || x; };
    area.addEventListener('keydown', (e) => {
      const does = {
        ArrowUp: () => at.up && mark(at.up), ArrowDown: () => at.below.length && mark(at.below[0]),
        ArrowLeft: () => mark(beside(at, -1)), ArrowRight: () => mark(beside(at, 1)),
        Enter: () => zoom(at), Backspace: () => root.up && zoom(root.up), Home: () => zoom(top),
      }[e.key];
      if (!does || e.ctrlKey || e.altKey || e.metaKey) return;
      does();
      e.preventDefault();
      e.stopPropagation();
    });
    box.append(el('p', { class: 'caption' }, 'Calling contexts: callers above, widths are instructions; a click zooms' + (C.cut ? '; the smallest are left out' : '')), area, line);
    draw();
    return { search(text) { words = text.trim().toLowerCase(); for (const [x, piece] of pieces) piece.classList.toggle('found', !!found(x)); } };
  };
  let flames = { search() {} };

  // --- tabs, search, keys ----------------------------------------------------------------------
  let tab = 0, list = null;
  const made = [];
  const buttons = tabs.map(([name, size], n) => el('button', { type: 'button', role: 'tab', on: { click: () => show(n) } },
    name, size === null ? null : el('small', {}, whole(size))));
  const show = (n) => {
    tab = n;
    made[n] = made[n] || tabs[n][2]();
    list = made[n];
    buttons.forEach((b, k) => { b.setAttribute('aria-selected', k === n); b.tabIndex = k === n ? 0 : -1; });
    list.filter($('search').value);
    $('view').replaceChildren(list.wrap || list.node);
    list.drawn?.fill();
    fillListings();
    const said = D.notes[tabs[n][0]];
    if (said) $('view').prepend(el('p', { class: 'note' }, said));
    const all = tabs[n][1], have = list.rows ? list.rows.length : 0;
    if (all !== null && have < all && have) $('view').append(el('p', { class: 'note' }, 'The hottest ' + whole(have) + ' of ' + whole(all) + '.'));
  };
  const open = (i) => {
    if (tabs[tab][0] !== 'Functions') show(0);
    const n = list.shown.findIndex((f) => f.i === i);
    showDetail(i);
    if (n >= 0) list.pick(n, false); else list.mark(-1);
  };
  const search = $('search');
  search.addEventListener('input', () => { list.filter(search.value); flames.search(search.value); });
  const root = document.documentElement;
  const paint = (dark) => root.setAttribute('data-scheme', dark ? 'dark' : 'light');
  const system = matchMedia('(prefers-color-scheme: dark)');
  paint(system.matches);
  system.addEventListener('change', (e) => paint(e.matches));
  const flip = () => paint(root.getAttribute('data-scheme') !== 'dark');
  $('scheme').addEventListener('click', flip);
  const keys = [['/', 'search the list'], ['Esc', 'leave the search; empty it'], ['j k ↓ ↑', 'next, previous row'], ['Enter', 'open the row'],
    ['1 – 9', 'the lists'], ['[ ]', 'list to the left, to the right'], ['t', 'dark or light'], ['↑ ↓ ← → Enter ⌫', 'in the calling contexts: move, zoom, zoom out'], ['?', 'these keys']];
  $('keys').append(el('table', {}, el('tbody', {}, keys.map(([k, what]) => el('tr', {}, el('td', {}, el('kbd', {}, k)), el('td', {}, what))))));
  const help = () => $('keys').open ? $('keys').close() : $('keys').showModal();
  $('help').addEventListener('click', help);
  document.addEventListener('keydown', (e) => {
    if (e.ctrlKey || e.altKey || e.metaKey) return;
    if (e.target === search) {
      if (e.key === 'Escape') { if (search.value) { search.value = ''; list.filter(''); flames.search(''); } else search.blur(); }
      else if (e.key === 'Enter' || e.key === 'ArrowDown') { search.blur(); list.move(list.picked < 0 ? 1 : 0); }
      else return;
      e.preventDefault();
      return;
    }
    const does = {
      '/': () => search.focus(), j: () => list.move(1), ArrowDown: () => list.move(1), k: () => list.move(-1), ArrowUp: () => list.move(-1),
      '[': () => show((tab + tabs.length - 1) % tabs.length), ']': () => show((tab + 1) % tabs.length), t: flip, '?': help,
    }[e.key];
    if (does) { does(); e.preventDefault(); return; }
    if (e.key === 'Enter' && e.target.tagName !== 'BUTTON' && list.shown && list.picked >= 0) { list.pick(list.picked, true); e.preventDefault(); return; }
    if (/^[1-9]$/.test(e.key) && Number(e.key) <= tabs.length) show(Number(e.key) - 1);
  });

  summary();
  where();
  $('tabs').append(...buttons);
  flames = flame();
  show(0);
})();
