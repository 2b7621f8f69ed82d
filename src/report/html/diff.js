// SPDX-License-Identifier: MIT
// The page of two profiles: what changed. report/html_data.h says what the data's columns are.
const L = D.lists;
const sampled = !D.exact;
// --- changes -------------------------------------------------------------------------------
// What is not known is not a number, and compares as false. Figures without errors are exact, or of
// samples: then nobody knows their errors.
const noise = (x) => x === null ? NaN : x === undefined ? (sampled ? NaN : 0) : x;
const change = (base, now, error) => ({ base, now, d: now - base, noise: noise(error), chance: now !== base && Math.abs(now - base) < noise(error) });
const signed = (d) => d === 0 ? '0' : (d < 0 ? '−' : '+') + count(Math.abs(d));
const ratio = (c) => {
  if (c.d === 0) return '0%';
  if (c.base === 0) return 'new';
  if (c.now === 0) return 'gone';
  const x = 100 * c.d / c.base;
  return x >= 1000 ? 'x' + (x / 100 + 1).toFixed(1) : (x < 0 ? '−' : '+') + Math.abs(x).toFixed(Math.abs(x) < 10 ? 2 : 1) + '%';
};
// For sorting: what is new comes behind every percentage.
const ratioKey = (c) => c.d === 0 ? 0 : c.base === 0 ? Infinity : c.d / c.base;
const effect = (d) => D.instructions[0] ? (d < 0 ? '−' : '+') + Math.abs(100 * d / D.instructions[0]).toFixed(2) + '%' : '';
// No colour where it is not known whether there is a difference.
const tone = (c) => isNaN(c.noise) ? null : c.d > 0 ? 'up' : c.d < 0 ? 'down' : null;
const said = (c, what) => whole(c.base) + ' before, ' + whole(c.now) + ' now: ' + (c.d < 0 ? '−' : c.d > 0 ? '+' : '') + whole(Math.abs(c.d)) + ' ' + what + ' (' + ratio(c) + ')' +
  (c.noise > 0 ? ' ± ' + whole(c.noise) : '') + (c.chance ? '; this may be chance' : isNaN(c.noise) ? '; how far this may be off is not known' : '');
const changed = (c, what) => el('span', { class: c.chance ? 'chance' : tone(c), title: said(c, what) }, (c.chance ? '~ ' : '') + signed(c.d));

// Columns of what a list is ranked by.
const columnsOf = (what, more) => [
  { head: 'change', key: (r) => r.c.d, num: true, title: 'of ' + what, show: (r) => changed(r.c, what) },
  { head: 'ratio', key: (r) => ratioKey(r.c), num: true, text: (r) => r.c.base === 0 ? 'new' : r.c.now === 0 ? 'gone' : '', show: (r) => el('span', { class: r.c.chance ? 'chance' : tone(r.c) }, ratio(r.c)) },
  ...(more?.effect ? [{ head: 'effect', key: (r) => r.c.d, num: true, title: 'share of all instructions before', minor: true, show: (r) => effect(r.c.d) }] : []),
  ...(sampled && !more?.unknown ? [num('±', (r) => r.c.noise || 0, { minor: true, title: '95 % interval of the change; what is less may be chance', show: (r) => isNaN(r.c.noise) ? '?' : count(r.c.noise) })] : []),
  num('before', (r) => r.c.base, { minor: true }), num('now', (r) => r.c.now, { minor: true }),
];
const before = (head, get, more) => ({ head, key: (r) => get(r).d, num: true, minor: true, show: (r) => changed(get(r), head), ...more });

const F = L.functions.map((f, i) => ({ i, c: change(f[0], f[1], f[2]), name: f[3], full: f[4], where: f[5], module: f[6], presence: f[7],
  incl: change(f[8], f[9]), calls: change(f[10], f[11]), loops: change(f[12], f[13]), kind: f[14], reason: f[15] }));
const rows = (name, make) => L[name].map((r) => ({ c: change(r[0], r[1], r[2]), ...make(r) }));
const noError = (name, make) => L[name].map((r) => ({ c: change(r[0], r[1]), ...make(r) }));
const lines = noError('lines', (r) => ({ name: r[2], where: r[3], f: r[4] }));

// --- one function --------------------------------------------------------------------------
let page = null, flames = null, current = F.length ? 0 : -1;
const figure = (name, c, what) => el('tr', {}, el('td', {}, name), el('td', { class: 'n', title: whole(c.base) }, count(c.base)), el('td', { class: 'n', title: whole(c.now) }, count(c.now)),
  el('td', { class: 'n' }, changed(c, what)), el('td', { class: 'n ' + (c.chance ? 'chance' : tone(c) || '') }, ratio(c)));
const table = (heads, body) => el('div', { class: 'card' }, el('table', {}, el('thead', {}, el('tr', {}, heads.map((h, i) => el('th', { class: i ? 'n' : null, scope: 'col' }, h)))), el('tbody', {}, body)));
const mostRelated = 14;
const endName = (x) => typeof x === 'number' ? F[x].name : x || '(code without a name)';
const related = (pairs, other, title) => {
  const box = el('div', {}, el('h3', {}, title + (pairs.length > mostRelated ? ' (' + pairs.length + ')' : '')));
  if (!pairs.length) { box.append(el('p', { class: 'note' }, 'No calls were counted.')); return box; }
  const size = (p) => [Math.abs(p[3] - p[2]), Math.max(p[2], p[3])];
  const sorted = [...pairs].sort((a, b) => size(b)[0] - size(a)[0] || size(b)[1] - size(a)[1]);
  box.append(table(['', 'calls before', 'now', 'change'], sorted.slice(0, mostRelated).map((p) => {
    const to = p[other], c = change(p[2], p[3]);
    return el('tr', { class: typeof to === 'number' ? 'link' : null, on: { click: () => typeof to === 'number' && open(to) } },
      el('td', { class: 'name' }, el('span', { class: 'clip', title: typeof to === 'number' ? F[to].full : to }, (p[6] ? '*\u00a0' : '') + endName(to))),
      el('td', { class: 'n', title: whole(c.base) }, count(c.base)), el('td', { class: 'n', title: whole(c.now) }, count(c.now)), el('td', { class: 'n' }, changed(c, 'calls')));
  })));
  return box;
};
const detail = (i) => {
  const f = F[i];
  const own = lines.filter((l) => l.f === i);
  const callers = D.pairs.filter((p) => p[1] === i), callees = D.pairs.filter((p) => p[0] === i);
  return el('div', { class: 'detail' }, el('h2', {}, f.full),
    el('div', { class: 'soft' }, [f.where, f.module, f.presence === 'added' ? 'was not executed before' : f.presence === 'removed' ? 'is not executed now' : ''].filter(Boolean).join(' · ')),
    f.reason ? el('p', { class: 'said' }, words(f.kind) + ': ' + f.reason) : null,
    f.c.chance ? el('p', { class: 'note' }, '~ This change may be chance: the samples tell it to ± ' + whole(f.c.noise) + ' instructions.') : null,
    el('div', { class: 'bar' }, flames.has(f.full) ? button('Callers and callees', () => flames.around(f.full), { title: 'in the calling contexts, above (s)' }) : null),
    el('h3', {}, 'Figures'),
    table(['', 'before', 'now', 'change', 'ratio'], [figure('instructions of its own', f.c, 'instructions'), figure('with what it calls', f.incl, 'instructions'),
      figure('calls of it', f.calls, 'calls'), figure('loop iterations', f.loops, 'iterations')]),
    own.length ? el('h3', {}, 'Lines') : null,
    own.length ? table(['line', 'before', 'now', 'change'], own.slice(0, 40).map((l) => el('tr', {}, el('td', { class: 'name' }, l.where),
      el('td', { class: 'n', title: whole(l.c.base) }, count(l.c.base)), el('td', { class: 'n', title: whole(l.c.now) }, count(l.c.now)), el('td', { class: 'n' }, changed(l.c, 'instructions'))))) : null,
    el('div', { class: callers.length && callees.length ? 'duo' : 'duo bare' }, related(callers, 0, 'Called by'), related(callees, 1, 'Calls')));
};
const side = el('div', { class: 'card side' });
const showDetail = (i) => {
  current = i;
  view.put({ row: i > 0 ? F[i].full : '' });
  side.replaceChildren(el('div', { class: 'scroll', style: { maxHeight: '88vh' } }, detail(i)));
};
const open = (i) => {
  if (!page.shows('Functions')) page.show('Functions');
  showDetail(i);
  const n = page.list.shown.findIndex((f) => f.i === i);
  if (n >= 0) page.list.pick(n, false); else page.list.mark(-1);
};

// --- the lists -----------------------------------------------------------------------------
const chance = new Choice('chance', 'what may be chance', [['shown', 'shown'], ['hidden', 'hidden']], () => { for (const list of lists) list.draw(); });
const lists = [];
const kept = (r) => chance.value === 'shown' || !r.c.chance;
const listOf = (all, columns, options) => {
  const list = new List(all, columns, { keep: kept, ...options });
  lists.push(list);
  return list;
};
const nameColumn = text('function', (r) => r.name, { text: (r) => r.full + ' ' + r.name, show: (r) => el('span', { class: 'clip', title: r.full }, r.name) });
const whereColumn = text('where', (r) => r.where || r.module, { text: (r) => r.where + ' ' + r.module, show: (r) => el('span', { class: 'short soft', title: r.module }, r.where || r.module) });
const functionsTab = () => {
  const reason = (f) => f.reason ? words(f.kind) + ': ' + f.reason : '';
  const list = listOf(F, [...columnsOf('instructions of its own', { effect: true }), before('calls', (f) => f.calls),
    text('function, reason of its change', (f) => f.name, { text: (f) => [f.full, f.name, f.where, f.module, reason(f)].join(' '),
      show: (f) => el('div', {}, el('span', { class: 'clip', title: f.full }, f.name), f.reason ? el('span', { class: 'clip soft plain', title: reason(f) }, reason(f)) : null) })],
  { open: (f) => showDetail(f.i), current: (f) => f.i === current });
  if (current < 0) side.replaceChildren(el('p', { class: 'empty' }, 'No function changed.'));
  list.wrap = el('div', { class: 'panes wide' }, list.node, side);
  return list;
};
const misses = (x) => percent(x / 1e6);
const tabs = [
  ['Functions', D.sizes.functions, functionsTab],
  ['Calls', D.sizes.calls, () => listOf(rows('calls', (r) => ({ from: r[3], to: r[4], computed: r[5], below: change(r[6], r[7]) })), [
    ...columnsOf('calls'), before('instr below', (r) => r.below), text('call site', (r) => r.from), text('callee', (r) => r.to), text('', (r) => r.computed ? 'computed' : '', { mono: false })])],
  ['Edges', D.sizes.edges, () => listOf(rows('edges', (r) => ({ from: r[3], to: r[4], kind: r[5] })), [
    ...columnsOf('executions'), text('kind', (r) => words(r.kind), { minor: true, mono: false }), text('from', (r) => r.from), text('to', (r) => r.to)])],
  ['Paths', D.sizes.paths, () => listOf(rows('paths', (r) => ({ times: change(r[3], r[4]), blocks: r[5], functions: r[6], lines: r[7] })), [
    ...columnsOf('instructions', { effect: true }), before('times', (r) => r.times), num('blocks', (r) => r.blocks),
    { head: 'route', key: (r) => r.functions.join(' '), text: (r) => [...r.functions, ...r.lines].join(' '), mono: true,
      show: (r) => el('div', {}, el('div', {}, r.functions.join(' → ')), chips(r.lines.slice(0, 24).concat(r.lines.length > 24 ? ['⋯ ' + (r.lines.length - 24) + ' more'] : []))) }])],
  ['Lines', D.sizes.lines, () => listOf(lines, [...columnsOf('instructions', { effect: true, unknown: true }), text('line', (r) => r.where), text('function', (r) => r.name)],
    { open: (r) => r.f >= 0 && open(r.f) })],
  ['Inlined', D.sizes.inlined, () => listOf(rows('inlined', (r) => ({ name: r[3], full: r[4], where: r[5], module: r[6], places: change(r[8], r[9]) })), [
    ...columnsOf('instructions of its own', { effect: true }), before('places', (r) => r.places), nameColumn, whereColumn])],
  ['Loads', D.sizes.loads, () => listOf(rows('loads', (r) => ({ place: r[3], times: change(r[4], r[5]), mean: [r[6], r[7]], misses: [r[8], r[9]] })), [
    ...columnsOf('cycles lost'), num('mean before', (r) => r.mean[0], { show: (r) => r.mean[0].toFixed(1) }), num('mean now', (r) => r.mean[1], { show: (r) => r.mean[1].toFixed(1) }),
    num('misses before', (r) => r.misses[0], { title: 'of the second level cache', show: (r) => misses(r.misses[0]) }), num('misses now', (r) => r.misses[1], { show: (r) => misses(r.misses[1]) }),
    before('times', (r) => r.times), text('load', (r) => r.place)])],
  ['Values', D.sizes.values, () => listOf(noError('values', (r) => ({ share: [r[2] / 1e6, r[3] / 1e6], value: r[4], insn: r[5], place: r[6] })), [
    num('executed before', (r) => r.c.base), num('now', (r) => r.c.now), share('value before', (r) => r.share[0], { title: 'share of the executions that compute this value' }), share('value now', (r) => r.share[1]),
    num('change', (r) => r.share[1] - r.share[0], { show: (r) => (r.share[1] < r.share[0] ? '−' : '+') + percent(Math.abs(r.share[1] - r.share[0])) }),
    text('value', (r) => r.value), text('instruction', (r) => r.insn), text('where', (r) => r.place)])],
  ['System calls', D.sizes.syscalls, () => listOf(noError('syscalls', (r) => ({ name: r[2] })), [...columnsOf('calls', { unknown: true }), text('name', (r) => r.name)])],
  ['Call tree', D.contexts.rows.length, () => new Tree(flames.tree.top, [
    { head: 'change', num: true, title: 'of instructions with all below', show: (x) => changed(total(x), 'instructions') }, { head: 'ratio', num: true, show: (x) => el('span', { class: total(x).chance ? 'chance' : tone(total(x)) }, ratio(total(x))) },
    { head: 'its own', num: true, minor: true, show: (x) => changed(own(x), 'instructions') }, { head: 'before', num: true, minor: true, show: (x) => count(x.base) }, { head: 'now', num: true, minor: true, show: (x) => count(x.now) },
    { head: 'calls', num: true, minor: true, show: (x) => changed(change(x.callsBase, x.callsNow), 'calls') }], { open: (x) => openContext(x) })],
  ['Run', null, () => still(runTab())],
].filter((t) => t[1] === null || t[1] > 0 || t[0] === 'Functions');
const runTab = () => {
  const one = (side, name) => facts(name + ': ' + side.file, [['command', el('span', { class: 'name' }, side.run.command)], ['mode', side.run.mode], ['engine', side.run.engine], ['started', side.run.started],
    ['duration', seconds(side.run.duration_s)], ['end', side.run.end], ['samples', whole(side.coverage.samples)], ['instructions profiled', whole(side.coverage.profiled)],
    ['instructions in all' + estimatedTotal(side.coverage), wholeOrNot(side.coverage.total)], ['share', side.coverage.share === null ? 'not known' : percent(side.coverage.share)],
    ['CPU of the program', seconds(side.overhead.program_cpu_s)], ['host', side.run.cpu + ', ' + side.run.cores + ' cores'], ['kernel', side.run.kernel], ...side.run.options]);
  return el('div', { class: 'grid' }, one(D.base, 'Before'), one(D.now, 'Now'));
};

// --- calling contexts ------------------------------------------------------------------------
const total = (x) => change(x.base, x.now, x.noise);
const own = (x) => change(x.ownBase, x.ownNow, x.ownNoise);
const openContext = (x) => { if (x.f >= 0) open(x.f); };
const makeFlames = () => {
  const C = D.contexts;
  if (!C.rows.length) {
    const without = [D.base, D.now].filter((s) => !s.contexts).map((s) => s.file).join(' and ');
    return noFlames((without || 'The profiles') + (without && without.includes(' and ') || !without ? ' have' : ' has') + ' no calling contexts, so there is no flame graph: shadow mode and --exact-inclusive collect them.');
  }
  const all = [Math.max(1, C.all[0]), Math.max(1, C.all[1])];
  const widths = new Choice('width', 'widths', [['both', 'both'], ['new', 'now'], ['base', 'before']], () => flames.draw());
  const by = new Choice('color', 'colours', [['count', 'counts'], ['share', 'shares']], () => flames.draw());
  const seen = (x) => by.value === 'share' ? change(x.base / all[0], x.now / all[1], 0) : total(x);
  // The power lets small changes be seen, while large ones still differ.
  const paintOf = (x) => {
    const c = seen(x), most = Math.max(c.base, c.now);
    if (!c.d || c.chance || !most) return { background: 'var(--same)' };
    const strength = Math.round(12 + 88 * (Math.abs(c.d) / most) ** 0.4);
    return { background: 'color-mix(in srgb, var(' + (c.d > 0 ? '--more' : '--less') + ') ' + strength + '%, var(--same))' };
  };
  const about = (x, top) => {
    const c = total(x), o = own(x);
    return (x.depth < 0 ? top.name + ', called from ' : '') + x.full + ': ' + said(c, 'instructions') + '; ' + percent(x.base / all[0]) + ' of all before, ' + percent(x.now / all[1]) + ' now' +
      (isAll(x) || x.depth < 0 ? '' : '; its own ' + signed(o.d) + ' (' + ratio(o) + ')' + (o.chance ? ', which may be chance' : '')) +
      (x.callsBase + x.callsNow ? '; calls ' + whole(x.callsBase) + ' → ' + whole(x.callsNow) : '');
  };
  const widthIs = { both: 'the sum of both profiles', new: 'instructions now', base: 'instructions before' };
  const config = {
    nodes: C.rows.map((r) => ({ up: r[0], name: C.names[r[1]][0], full: C.names[r[1]][1], f: C.names[r[1]][2], base: r[2], now: r[3], ownBase: r[4], ownNow: r[5], callsBase: r[6], callsNow: r[7], noise: noise(r[8]), ownNoise: noise(r[9]) })),
    // On one scale all contexts have as many; rounded they differ by some.
    top: { base: all[0], now: all[1], ownBase: 0, ownNow: 0, callsBase: 0, callsNow: 0, noise: sampled ? C.rows.length : 0, ownNoise: 0 },
    fields: ['base', 'now', 'ownBase', 'ownNow', 'callsBase', 'callsNow', 'noise', 'ownNoise'], totals: ['base', 'now', 'noise'],
    size: (x) => x.base + x.now, weight: (x) => widths.value === 'new' ? x.now : widths.value === 'base' ? x.base : x.base + x.now,
    label: (x) => { const c = seen(x); return x.name + (c.d && !c.chance ? '  ' + ratio(c) : ''); },
    paint: paintOf, about, open: openContext, choices: sampled ? [widths] : [widths, by],
    legend: el('span', { class: 'legend' }, 'less', el('i'), 'more'),
    caption: (below) => 'Calling contexts of both: callers ' + (below ? 'below' : 'above') + ', widths are ' + widthIs[widths.value] + '; a click zooms' + (C.cut ? '; the smallest are left out' : ''),
  };
  return new Flames(config, contextTree(config));
};

// --- summary -------------------------------------------------------------------------------
const summary = () => {
  $('command').textContent = D.base.file + '  →  ' + D.now.file;
  $('command').title = $('command').textContent;
  document.title = 'shadowprof: ' + D.base.file.split('/').pop() + ' → ' + D.now.file.split('/').pop();
  const run = (s) => [s.run.mode + ' mode', s.run.started.replace('T', ' ').replace(/Z$/, ' UTC'), s.run.command.split(' ')[0].split('/').pop()].filter(Boolean).join(' · ');
  $('meta').textContent = 'before: ' + run(D.base) + '   |   now: ' + run(D.now);
  const of = (pair, name) => { const c = change(pair[0], pair[1]); const t = tile(ratio(c), name + ': ' + count(c.base) + ' → ' + count(c.now), said(c, name)); t.firstChild.classList.add(tone(c) || 'same'); return t; };
  const certain = F.filter((f) => f.c.d && !f.c.chance);
  const all = D.knows_totals ? of(D.instructions, 'instructions') : tile('not known', 'how many instructions: too few were profiled');
  $('tiles').append(all, of(D.calls, 'calls'), of(D.syscalls, 'system calls'),
    tile(whole(D.sizes.functions), 'functions changed'), tile(whole(certain.filter((f) => f.c.d > 0).length) + ' / ' + whole(certain.filter((f) => f.c.d < 0).length), 'of the listed do more / less' + (sampled ? ', beyond chance' : '')));
  const say = (words, warned) => $('where').append(el('p', { class: 'said ' + (warned ? 'warned' : 'soft') }, words));
  for (const s of [D.base, D.now]) if (s.incomplete) say(s.file + ' ' + s.incomplete, true);
  if (D.exact) say('Both profiles are exact: every difference is one of the program.');
  else {
    say('Counts were sampled: those of both profiles are on the scale of the one before, so what changed is a share. ' +
      (D.groups < 2 ? 'How far they may be off is not known.' : 'What is within its 95 % interval, and so may be chance, is marked ~, and has no colour in the flame graph. ' +
        'Errors of other figures, and of lines, values and system calls, are not known, so these have no colour either.'));
    if (D.groups >= 2) $('where').append(el('p', { class: 'bar' }, chance.node));
  }
  const missing = [['paths', 'paths'], ['values', 'values'], ['loads', 'loads'], ['inlined', 'inlined functions'], ['lines', 'source lines']].filter((x) => !D.has[x[0]]).map((x) => x[1]);
  if (missing.length) say('Not compared, as not both profiles tell of them: ' + missing.join(', ') + '.');
};

summary();
flames = makeFlames();
page = {
  tabs, flames, notes: {}, first: 'largest',
  keys: [['s', 'callers and callees of the marked context; all again', () => flames.aroundMarked?.()], ['i', 'icicle or flame graph', () => flames.next()]],
  reopen(name) { chance.restore(); const i = F.findIndex((f) => f.full === name); if (F.length) showDetail(i < 0 ? 0 : i); },
};
startPage(page);
