// SPDX-License-Identifier: MIT
// The page of one profile. report/html_data.h says what the data's columns are.
const total = Math.max(1, D.coverage.attributed);
const F = D.functions.map((f, i) => ({ i, name: f[0], module: f[1], offset: f[2], where: f[3], self: f[4],
  incl: f[5], calls: f[6], loops: f[7], full: f[8], user: f[9], kernel: f[10] }));
const time = D.time;  // null: not measured
// Inclusive counts may be worked out from call pairs instead of followed.
const estimated = D.run.options.some((o) => o[0] === 'inclusive' && o[1] === 'estimated');
const label = (i) => i < 0 ? '(code without a name)' : F[i].name;

// A single time is not known more exactly than the clock's step.
const steps = (head, get, more) => num(head, get, { ...more, show: (r) => get(r) < (D.run.clock_step || 0) ? '<' + Math.round(D.run.clock_step) : count(get(r)) });
// Only the time is known of what no sample met.
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
const ofLine = (line, props, ...cells) => { const row = el('tr', props, ...cells); row.line = line; return row; };
function* sourceRows(code) {
  const most = Math.max(1, ...code.lines.map((l) => l[2]));
  let file = null, last = 0;
  for (const [i, [path, line, instr, runs, has, body]] of code.lines.entries()) {
    if (path !== file) {
      yield el('tr', { class: 'at' }, el('td', { colspan: 4 }, path));
      file = path;
    } else if (line > last + 1) yield el('tr', { class: 'idle' }, el('td'), el('td'), el('td', { class: 'n' }, '⋯'), el('td'));
    last = line;
    yield ofLine(i, { class: instr ? null : 'idle' },
      el('td', { class: 'n', title: whole(instr), style: heat(instr / most) }, has ? count(instr) : ''),
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
      yield ofLine(at, { class: 'at' }, el('td', { colspan: 4 }, l[0].split('/').pop() + ':' + l[1] +
        (inlined ? '  in ' + inlined : '') + (l[5] ? '   ' + l[5].trim() : '')));
      line = at;
    }
    yield ofLine(at, { class: n ? null : 'idle' },
      el('td', { class: 'n', title: whole(n), style: heat(n / most * .9) }, n ? count(n) : '–'),
      el('td', { class: 'n', title: taken === null ? null : 'branch taken' }, taken === null ? '' : percent(taken)),
      el('td', { class: 'n soft' }, '+0x' + offset.toString(16)), el('td', {}, body, details ? el('span', { class: 'soft' }, '   ' + details) : null));
  }
}

const hasBoth = (code) => code && code.lines.some((l) => l[5] !== null) && code.insns.length > 0;
// Source on the left, instructions on the right: those of the line under the pointer are lit, a
// click brings them into view.
const sideBySide = (i) => {
  const code = D.code[i];
  const boxes = [codeTable(['instr', 'times', 'line', 'source'], sourceRows(code)), codeTable(['count', 'taken', 'offset', 'instruction'], codeRows(code))];
  let lit = -1;
  const light = () => boxes.forEach((box) => box.querySelectorAll('tr').forEach((row) => row.classList.toggle('lit', lit >= 0 && row.line === lit)));
  const lineAt = (e) => e.target.closest('tr')?.line ?? -1;
  boxes.forEach((box, n) => {
    box.addEventListener('mouseover', (e) => { const line = lineAt(e); if (line !== lit) { lit = line; light(); } });
    box.addEventListener('scroll', light);
    box.addEventListener('click', (e) => {
      const line = lineAt(e), other = boxes[1 - n];
      let row = null;
      const find = () => row = [...other.querySelectorAll('tr')].find((r) => r.line === line);
      while (line >= 0 && !find() && other.drawn.more());
      if (row) { other.scrollTop = row.offsetTop - other.clientHeight / 3; lit = line; light(); }
    });
  });
  return boxes;
};
const codeTab = () => {
  const node = el('div'), have = Object.keys(D.code).map(Number).filter((i) => hasBoth(D.code[i]));
  const appear = () => {
    const at = have.includes(current) ? current : have[0];
    const choose = el('select', { 'aria-label': 'Function', on: { change: (e) => { open(Number(e.target.value), true); appear(); } } },
      have.map((i) => el('option', { value: i, selected: i === at ? '' : null }, F[i].name + '  ' + percent(F[i].self / total))));
    const boxes = sideBySide(at);
    node.replaceChildren(el('p', { class: 'bar' }, choose, el('span', { class: 'soft' }, [F[at].where, whole(F[at].self) + ' instructions'].filter(Boolean).join(' · '))), el('div', { class: 'both' }, boxes));
    boxes.forEach((box) => box.drawn.fill());
  };
  return { ...still(node), appear };
};

const detail = (i) => {
  const f = F[i];
  const code = D.code[i];
  const callers = D.pairs.filter((p) => p[1] === i), callees = D.pairs.filter((p) => p[0] === i);
  const box = el('div', { class: 'detail' }, el('h2', {}, f.full),
    el('div', { class: 'soft' }, [f.where, f.module + '+0x' + f.offset.toString(16)].filter(Boolean).join(' · ')),
    el('div', { class: 'soft' }, (time ? seconds(f.user) + ' of processor time, ' + seconds(f.kernel) + " of the kernel's, " : '') + whole(f.self) + ' instructions of its own (' + percent(f.self / total) + '), ' +
      (estimated ? 'about ' + count(f.incl) : whole(f.incl)) + ' with what it calls, ' + many(f.calls, 'call') + ', ' + many(f.loops, 'loop iteration')),
    el('div', { class: 'bar' },
      flames.has(f.full) ? button('Callers and callees', () => flames.around(f.full), { title: 'in the calling contexts, above (s)' }) : null,
      hasBoth(code) ? button('Source and code, side by side', () => page.show('Code'), { title: 'c' }) : null),
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
let page = null, flames = null;
const showDetail = (i) => {
  current = i;
  view.put({ row: i > 0 ? F[i].full : '' });
  side.replaceChildren(el('div', { class: 'scroll', style: { maxHeight: '88vh' } }, detail(i)));
  fillListings();
};
const fillListings = () => side.querySelectorAll('.listing').forEach((box) => box.drawn.fill());
const shares = (list) => chips(list.slice(0, 4).map((v) => v[0] + '  ' + percent(v[1])));

// What ran in the part of the time that is chosen; null: the whole run.
let ran = null;
const partOf = (map, key) => map.get(key) || [0, 0];
const sum = ([user, kernel]) => user + kernel;
const timeShare = (f) => ran ? sum(partOf(ran.functions, f.i)) / ran.all : (f.user + f.kernel) / time.total_s;
const functionsTab = () => {
  const list = new List(ran ? F.filter((f) => ran.functions.has(f.i)).sort((a, b) => timeShare(b) - timeShare(a)) : F.slice(0, D.own_list), [
    ...(time ? [share('time', timeShare, { title: "processor time of its own, with the kernel's for it" })] : []),
    share('self', (f) => f.self / total, { title: 'instructions of its own, of all', ...met((f) => f.self) }),
    share(estimated ? 'total ≈' : 'total', (f) => f.incl / total, { title: 'with what it calls' + (estimated ? ', estimated from calls' : '') }),
    num('calls', (f) => f.calls, { minor: true }), num('loops', (f) => f.loops, { minor: true, title: 'iterations of its loops' }),
    text('function', (f) => f.name, { text: (f) => f.full + ' ' + f.name, show: (f) => el('span', { class: 'clip', title: f.full }, f.name) }),
    text('where', (f) => f.where || f.module, { minor: true, text: (f) => f.where + ' ' + f.module, show: (f) => el('span', { class: 'short soft', title: f.module }, f.where || f.module) }),
  ], { open: (f) => showDetail(f.i), current: (f) => f.i === current });
  if (current < 0) side.replaceChildren(el('p', { class: 'empty' }, 'No function has a name.'));
  list.wrap = el('div', { class: 'panes' }, list.node, side);
  list.appear = () => { List.prototype.appear.call(list); fillListings(); };
  return list;
};
const threadTimes = (t) => ran ? partOf(ran.threads, D.threads.indexOf(t)) : [t[3], t[4]];
const classNames = ['L1', 'L2', 'L3', 'DRAM', 'beyond'];
const classBar = (c) => el('span', { class: 'stack', title: c.map((x, i) => classNames[i] + ' ' + percent(x)).join(', ') },
  c.map((x, i) => el('i', { style: { width: 100 * x + '%', background: ['var(--hue1)', 'var(--hue0)', 'var(--hue2)', 'var(--hot)', 'var(--soft)'][i] } })));
const histogram = (h) => {
  const most = Math.max(1, ...h.map((x) => x[1])), high = 22;
  const bars = h.slice(0, 40).map((x, i) => [6 * i, Math.max(1, high * Math.sqrt(x[1] / most))]);
  return el('span', { title: h.map((x) => x[0] + '+ cycles: ' + x[1]).join('\n') }, drawingOf(bars, 6 * bars.length, 5, high));
};
// Where it is not known what ran when.
const timeline = (rows, whole_s) => {
  const end_s = Math.max(whole_s, rows[rows.length - 1][0] / 1e6, 1e-6);
  return el('section', { class: 'card timeline', 'aria-label': 'Samples over time' }, el('h3', {}, 'Samples over time'),
    sampleLanes(rows, end_s, 56), endsOf(end_s));
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
    share('share', (c) => c[4]), num('count', (c) => c[3]), num('instr below', (c) => c[5], { minor: true }),
    text('call site', (c) => c[0]), text('callee', (c) => c[1]), text('', (c) => c[2] ? 'computed' : '', { minor: true, mono: false })])],
  ['Edges', D.sizes.edges, () => new List(L.edges, [
    share('share', (e) => e[4]), num('count', (e) => e[3]), text('kind', (e) => e[2].replace('_', ' '), { minor: true, mono: false }),
    text('from', (e) => e[0]), text('to', (e) => e[1])])],
  ['Paths', D.sizes.paths, () => new List(L.paths, [
    share('share', (p) => p[0], { title: 'of all instructions' }), share('flow', (p) => p[1], { minor: true, title: 'of all path executions' }),
    num('count', (p) => p[2]), num('instr', (p) => p[3], { minor: true }), num('blocks', (p) => p[5].length, { minor: true }),
    { head: 'route', key: (p) => p[5].join(' '), text: (p) => p[5].join(' ') + ' ' + p[4], mono: true,
      show: (p) => { const route = p[5].map((b) => b.replace('  ', ' ')); const runs = [];
        for (const b of route) { const e = runs[runs.length - 1]; if (e && e[0] === b) e[1]++; else runs.push([b, 1]); }
        return el('div', {}, p[4] ? el('div', { class: 'soft' }, 'from ' + p[4]) : null,
          chips(runs.slice(0, 24).map(([b, n]) => n > 1 ? b + ' ×' + n : b).concat(runs.length > 24 ? ['⋯ ' + (runs.length - 24) + ' more'] : []))); } }])],
  ['Loads', D.sizes.loads, () => new List(L.loads, [
    num('cycles lost', (l) => l[6]), num('count', (l) => l[1], { minor: true }), num('mean', (l) => l[2]),
    num('±', (l) => l[10], { minor: true, title: 'the mean\'s error: by chance, or what cold caches of replicas may add' }), steps('p50', (l) => l[3], { minor: true }), steps('p99', (l) => l[4], { minor: true }),
    { head: 'L1 L2 L3 DRAM', key: (l) => l[5][3], show: (l) => classBar(l[5]), title: 'where it was served from, in the order of the colours' },
    { head: 'cycles', key: (l) => l[2], minor: true, show: (l) => histogram(l[9]) },
    text('load', (l) => l[0]), text('by', (l) => l[11], { minor: true, mono: false, title: 'kind of instruction' }), text('addresses', (l) => l[7] + (l[8] ? ', stride ' + l[8] : ''), { minor: true, mono: false })])],
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
    num('count', (v) => v[3]), share('top value', (v) => v[4]), share('same', (v) => v[6], { minor: true, title: 'equal to the one before' }),
    share('stride', (v) => v[7], { minor: true, title: 'as far from the one before as that one; of integers' }), num('distinct', (v) => v[8], { minor: true }),
    { head: 'values', key: (v) => v[4], text: (v) => v[10].map((x) => x[0]).join(' '), show: (v) => shares(v[10]) },
    text('type', (v) => v[12], { minor: true, mono: false, title: 'of a result in a vector register; nothing: an integer' }),
    text('instruction', (v) => v[2], { show: (v) => el('span', { class: 'whole' }, v[2]) }), text('where', (v) => v[0] + (v[1] ? ', returning to ' + v[1] : '')),
    { head: '', key: (v) => v[9], text: (v) => v[9] ? 'semi-invariant: ' + v[11] : '', show: (v) => el('span', { class: 'whole hot' }, v[9] ? 'semi-invariant: ' + v[11] : '') }])],
  ['Arguments', D.sizes.arguments, () => new List(L.arguments, [
    num('calls', (a) => a[4]), share('top value', (a) => a[5], { minor: true }),
    { head: 'values', key: (a) => a[5], text: (a) => a[6].map((x) => x[0]).join(' '), show: (a) => shares(a[6]) },
    text('argument', (a) => a[2] + (a[3] ? ' (size)' : ''), { mono: false }), text('function', (a) => a[1]), text('call site', (a) => a[0]),
    text('what to do', (a) => a[7], { mono: false })])],
  ['Indirect', D.sizes.targets, () => new List(L.targets, [
    num('count', (t) => t[2]), num('targets', (t) => t[3]), text('branch', (t) => t[0]),
    { head: 'goes to', key: (t) => t[4].length ? t[4][0][1] : 0, text: (t) => t[4].map((x) => x[0]).join(' '), mono: true,
      show: (t) => el('div', {}, t[4].slice(0, 5).map((x) => el('div', {}, bar(x[1]), '  ' + x[0]))) }])],
  ['Call tree', Math.max(D.contexts.rows.length, D.time_contexts.rows.length), () => callTree()],
  ['Contexts', D.sizes.contexts, () => new List(L.contexts, [
    share('share', (c) => c[0]), num('instr', (c) => c[1], { minor: true }), num('calls', (c) => c[2], { minor: true }),
    { head: 'callers, function', key: (c) => c[3].join(' '), text: (c) => c[3].join(' '), mono: true, show: (c) => chips(c[3]) }])],
  ['Inlined', D.sizes.inlined, () => new List(L.inlined, [
    ...(time ? [share('time', (f) => (f[7] + f[8]) / time.total_s, { title: "processor time of its own, with the kernel's for it; a part of that of the functions it is in" })] : []),
    share('self', (f) => f[3] / total, { title: 'instructions of its own, of all; a part of those of the functions it is in', ...met((f) => f[3]) }),
    share(estimated ? 'total ≈' : 'total', (f) => f[4] / total, { title: 'with what was inlined into it, and what it calls' }),
    num('places', (f) => f[5], { minor: true, title: 'calls that it was put in the place of' }),
    text('function', (f) => f[0], { text: (f) => f[6] + ' ' + f[0], show: (f) => el('span', { class: 'clip', title: f[6] }, f[0]) }),
    text('where', (f) => f[2] || f[1], { minor: true, text: (f) => f[2] + ' ' + f[1], show: (f) => el('span', { class: 'short soft', title: f[1] }, f[2] || f[1]) })])],
  ['Threads', D.threads.length, () => new List(D.threads, [
    share('share', (t) => sum(threadTimes(t)) / (ran ? ran.all : time.total_s), { title: 'of the processor time' }),
    num('user', (t) => threadTimes(t)[0], { show: (t) => seconds(threadTimes(t)[0]) }), num('kernel', (t) => threadTimes(t)[1], { show: (t) => seconds(threadTimes(t)[1]) }),
    text('thread', (t) => t[2]), num('tid', (t) => t[0], { minor: true, show: (t) => t[0] ? String(t[0]) : '' }), num('process', (t) => t[1], { minor: true, show: (t) => t[1] ? String(t[1]) : '' }),
    { head: 'where its time went', key: (t) => t[5].join(' '), text: (t) => t[5].map((f) => f[0]).join(' '), show: (t) => chips(t[5].map((f) => f[0] + '  ' + percent(f[1] / Math.max(1e-9, t[3] + t[4])))) }])],
  ['Code', null, codeTab],
  ['Run', null, () => runTab()],
].filter((t) => t[0] !== 'Code' || Object.values(D.code).some(hasBoth)).filter((t) => t[1] === null || t[1] > 0 || t[0] === 'Functions');

const ranked = (pairs) => [...pairs].sort((a, b) => b[1] - a[1]).map((p) => [words(p[0]), whole(p[1])]);
const runTab = () => {
  const c = D.coverage, o = D.overhead, r = D.run;
  const sampled = r.mode !== 'full';
  const grid = el('div', { class: 'grid' },
    facts('Run', [['command', el('span', { class: 'name' }, r.command)], ['mode', r.mode], ['engine', r.engine], ['started', r.started],
      ['duration', seconds(r.duration_s)], ['end', r.end], ['host', r.cpu + ', ' + r.cores + ' cores'], ['kernel', r.kernel]]),
    facts('Coverage', [['samples', whole(c.samples)], ['instructions profiled', whole(c.profiled)],
      ['instructions in all' + estimatedTotal(c), wholeOrNot(c.total)], ['share', c.share === null ? 'not known' : percent(c.share)],
      ...ranked(c.dropped).map((x) => ['dropped: ' + x[0], x[1]]), ...ranked(c.events)]),
    facts('What ended samples', ranked(c.ended)),
    facts(sampled ? 'Overhead' : 'Cost', [...(sampled ? [['budget', percent(o.budget)], ['estimated', percent(o.share)], ['pauses, in all', seconds(o.pause[0])],
      ['longest pause', seconds(o.pause[1])], ['median, 99 %', seconds(o.pause[2]) + ', ' + seconds(o.pause[3])], ['forks', whole(o.forks)], ['extra page faults', whole(o.faults)]] : []),
      ['CPU of the program', seconds(o.program_cpu_s)], ['CPU of the engine', seconds(o.engine_cpu_s)], ['CPU of collectors', seconds(o.collector_cpu_s)],
      ['translated blocks', whole(o.blocks)], ['translation', seconds(o.translation_s)]]),
    facts('Stops of the program', ranked(o.stops)),
    facts('System calls', D.syscalls.names.sort((a, b) => b[1] - a[1]).map((s) => [s[0], whole(s[1]) + (s[2] ? ', ended ' + whole(s[2]) + ' samples' : '')])),
    facts('Options', r.options));
  const all = o.timeline.length && !moments ? el('div', {}, timeline(o.timeline, r.duration_s), grid) : grid;
  return still(all);
};

// --- summary -------------------------------------------------------------------------------
const summary = () => {
  const c = D.coverage, o = D.overhead, r = D.run;
  $('command').textContent = r.command || '(no command recorded)';
  $('command').title = r.command;
  document.title = 'shadowprof: ' + (r.command.split(' ')[0].split('/').pop() || 'profile');
  $('meta').textContent = [r.mode + ' mode', r.started.replace('T', ' ').replace(/Z$/, ' UTC'), seconds(r.duration_s), r.end, r.cpu].filter(Boolean).join(' · ');
  const tiles = c.total === null || c.share === null ? [tile(count(c.profiled), 'instructions profiled; of how many is not known', whole(c.profiled))] : [
    tile(count(c.total), 'instructions' + estimatedTotal(c), whole(c.total)),
    tile(percent(c.share), D.exact ? 'profiled: exact counts' : 'of them profiled', whole(c.profiled) + ' instructions'),
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
  if (D.advice) $('findings').append(el('p', { class: 'said warned' }, D.advice[0].toUpperCase() + D.advice.slice(1) + '.'));
};

// What to look at first, as the text report begins with it.
const findings = () => {
  const { of, rows } = D.findings;
  if (!rows.length) return;
  const place = (name, whole) => !name ? null : byName.has(whole) ?
    button(name + ':', () => open(byName.get(whole)), { class: 'go name', title: 'opens the function: ' + whole }) : el('span', { class: 'name' }, name + ':');
  $('findings').append(el('div', { class: 'card' }, el('h3', {}, 'Findings', el('span', { class: 'soft' }, '  by the share of the ' + of + ' at stake')),
    el('table', {}, el('tbody', {}, rows.map(([stake, name, whole, says]) =>
      el('tr', {}, el('td', { class: 'n' }, bar(stake)), el('td', {}, place(name, whole), name ? ' ' : '', says)))))));
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
const byName = new Map(F.map((f) => [f.full, f.i]));
const openContext = (x) => { if (byName.has(x.full)) open(byName.get(x.full)); };
const hueOf = (name) => { let h = 0; for (let i = 0; i < name.length; i++) h = (h * 31 + name.charCodeAt(i)) % 997; return 'var(--hue' + h % 6 + ')'; };
// Contexts by instructions or by time; `unit` says what of.
const contextsOf = (C, unit, amount) => {
  const all = Math.max(1, C.all);
  return {
    nodes: C.rows.map((r) => ({ up: r[0], name: C.names[r[1]][0], full: C.names[r[1]][1], n: r[2], own: r[3], calls: r[4] })),
    top: { n: all, own: 0, calls: 0 }, fields: ['n', 'own', 'calls'], totals: ['n'],
    size: (x) => x.n, weight: (x) => x.n, label: (x) => x.name, open: openContext,
    paint: (x) => ({ background: hueOf(x.name) }),
    about: (x, top) => (x.depth < 0 ? top.name + ', called from ' : '') + x.full + ': ' + percent(x.n / all) + ' of ' + amount(C.all) + ' ' + unit +
      (isAll(x) || x.depth < 0 ? '' : ', ' + percent(x.own / all) + ' its own' + (x.calls ? ', ' + many(x.calls, 'call') : '')),
    caption: (below) => 'Calling contexts: callers ' + (below ? 'below' : 'above') + ', widths are ' + unit + '; a click zooms' + (C.cut ? '; the smallest are left out' : ''),
  };
};
const makeFlames = () => {
  const kinds = [['time', 'time', D.time_contexts, 'processor time', (ns) => seconds(ns / 1e9)], ['instr', 'instructions', D.contexts, 'instructions', count]]
    .filter(([, , C]) => C.rows.length);
  if (!kinds.length) return noFlames('This profile has no calling contexts: shadow mode and --exact-inclusive collect them.');
  const configs = Object.fromEntries(kinds.map(([word, , C, unit, amount]) => [word, contextsOf(C, unit, amount)]));
  const widths = new Choice('widths', 'widths', kinds, (word) => {
    flames.change(configs[word]);
    if (page) page.again();
  });
  const first = configs[widths.value];
  first.choices = kinds.length > 1 ? [widths] : [];
  return new Flames(first, contextTree(first));
};
const callTree = () => new Tree(flames.tree.top, [
  share('total', (x) => x.n / flames.tree.top.n, { title: 'with all below' }), share('self', (x) => x.own / flames.tree.top.n, { title: 'of its own' }),
  ...(flames.tree.nodes.some((x) => x.calls) ? [num('calls', (x) => x.calls, { minor: true })] : [])], { open: openContext });

const open = (i, stay) => {
  if (!stay && !page.shows('Functions')) page.show('Functions');
  showDetail(i);
  if (stay || !page.list.shown) return;
  const n = page.list.shown.findIndex((f) => f.i === i);
  if (n >= 0) page.list.pick(n, false); else page.list.mark(-1);
};
// Rows that name functions, of which none ran in the part that is chosen, are hidden; F's own rows
// are chosen by their list.
const texts = (x) => typeof x === 'string' ? [x] : Array.isArray(x) ? x.flatMap(texts) : [];
const namesOf = (row) => texts(row).map((s) => s.split('  ')[0]).filter((name) => idOf.has(name));
const idOf = new Map(F.map((f) => [f.name, f.i]).reverse());
const keepWhatRan = (row) => {
  if (!ran || !Array.isArray(row)) return true;
  if (D.threads.includes(row)) return ran.threads.has(D.threads.indexOf(row));
  const names = namesOf(row);
  return !names.length || names.some((name) => ran.functions.has(idOf.get(name)));
};
keepRow = keepWhatRan;
const moments = D.course && new Moments(D.course, D.overhead.timeline, D.run.duration_s, () => {
  ran = moments.part ? moments.spent() : null;
  if (page?.again) page.again();
});
const saysWhatRan = (name) => !ran ? null : ['Functions', 'Threads'].includes(name) ? 'Times are those of the part of the run that is chosen above; counts are of the whole run.' :
  ['Code', 'Run', 'Call tree'].includes(name) ? null : 'What concerns functions that ran in the part that is chosen above, with the counts of the whole run.';

summary();
findings();
where();
if (moments) $('moments').append(moments.node);
flames = makeFlames();
page = {
  tabs, flames, notes: D.notes, says: saysWhatRan, restore: () => moments?.restore(),
  keys: [['s', 'callers and callees of the marked context; all again', () => flames.aroundMarked?.()], ['i', 'icicle or flame graph', () => flames.next()],
    ['c', 'source and code of the function, side by side', () => page.show('Code')],
    ...(moments ? [['w', 'the whole run, after a part of the time was chosen', () => moments.choose(null)]] : [])],
  reopen(name) { const i = F.findIndex((f) => f.full === name); if (F.length) { current = i < 0 ? 0 : i; showDetail(current); } },
};
startPage(page);
