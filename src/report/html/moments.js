// SPDX-License-Identifier: MIT
// When threads ran, one lane each, and when samples were taken. A part of the time can be chosen:
// the lists are those of that part as far as they know it.
// report/html_data.h says what D.course has; null: it is not known.

// bars: [from the left, height]
const drawingOf = (bars, width, wide, high) => {
  const drawing = $('drawing').content.firstChild.cloneNode(true);
  drawing.setAttribute('viewBox', '0 0 ' + width + ' ' + high);
  drawing.setAttribute('width', width);
  drawing.setAttribute('height', high);
  drawing.firstChild.setAttribute('d', bars.map(([x, b]) => 'M' + x.toFixed(1) + ' ' + high + 'v-' + b.toFixed(1) + 'h' + wide + 'v' + b.toFixed(1) + 'z').join(''));
  return drawing;
};
const stretched = (drawing) => {
  drawing.removeAttribute('width');
  drawing.setAttribute('preserveAspectRatio', 'none');
  return drawing;
};
const laneWidth = 1000;
const lane = (name, title, bars, wide, high) => el('div', { class: 'lane-of' },
  el('div', { class: 'soft name', title }, name), stretched(drawingOf(bars, laneWidth, wide, high)));
const endsOf = (end_s) => el('div', { class: 'soft ends' }, el('span', {}, '0 s'), el('span', {}, seconds(end_s)));
// row = [at us, samples, instructions, paused us]
const sampleLanes = (rows, end_s, high) => {
  const one = (name, n, show) => {
    const most = Math.max(1, ...rows.map((r) => r[n]));
    return lane(name + ', at most ' + show(most), '', rows.map((r) => [(laneWidth - 2) * r[0] / (1e6 * end_s), Math.max(1, high * r[n] / most)]), 1.5, high);
  };
  return [one('instructions of each sample', 2, count), one('pause of each', 3, (us) => seconds(us / 1e6))];
};

class Moments {
  // `changed()` is called when another part is chosen.
  constructor(course, samples, duration_s, changed) {
    this.course = course; this.changed = changed; this.part = null;
    const last = course.rows.reduce((most, r) => Math.max(most, r[0]), 0);
    this.slices = Math.max(last + 1, Math.ceil(duration_s / course.slice_s));
    const end_s = this.slices * course.slice_s;
    this.said = el('span', { class: 'soft' });
    this.all = button('The whole run', () => this.choose(null), { title: 'w', hidden: '' });
    this.mark = el('i', { hidden: '' });
    this.box = el('div', { class: 'lanes' }, this.threadLanes(), samples.length ? sampleLanes(samples, end_s, 24) : [], this.mark);
    this.node = el('section', { class: 'card timeline', 'aria-label': 'Time by thread' },
      el('p', { class: 'bar' }, el('h3', {}, 'Time by thread'), this.all, this.said), this.box, endsOf(end_s));
    this.listen();
    this.tell();
  }
  threadLanes() {
    const { course } = this, high = 24, most = 12;
    const busy = course.threads.map(() => new Float64Array(this.slices));
    for (const [slice, thread, , user, kernel] of course.rows) if (thread >= 0) busy[thread][slice] += user + kernel;
    const wide = laneWidth / this.slices;
    const lanes = course.threads.slice(0, most).map(([name, tid], n) => {
      const bars = [];
      busy[n].forEach((s, slice) => { if (s > 0) bars.push([wide * slice, high * Math.min(1, s / course.slice_s)]); });
      return lane((name || 'thread') + (tid ? '  ' + tid : ''), 'processor time; a full bar is all of one processor', bars, Math.max(0.8, 0.9 * wide), high);
    });
    if (course.threads.length > most) lanes.push(el('p', { class: 'soft' }, 'and ' + many(course.threads.length - most, 'thread') + ' more'));
    return lanes;
  }
  // A pointer that is drawn over the lanes chooses; a click chooses the whole run.
  listen() {
    const least = 4;  // pixels
    let first = null;
    const at = (x) => {
      const lane = this.box.querySelector('svg').getBoundingClientRect();
      return Math.max(0, Math.min(this.slices - 1, Math.floor(this.slices * (x - lane.left) / Math.max(1, lane.width))));
    };
    const part = (x) => Math.abs(x - first) < least ? null : [at(Math.min(first, x)), at(Math.max(first, x)) + 1];
    const end = (e) => { const chosen = e && part(e.clientX); first = null; return chosen; };
    this.box.addEventListener('pointerdown', (e) => { if (e.button === 0) { first = e.clientX; this.box.setPointerCapture(e.pointerId); e.preventDefault(); } });
    this.box.addEventListener('pointermove', (e) => { if (first !== null) this.show(part(e.clientX)); });
    this.box.addEventListener('pointerup', (e) => { if (first !== null) this.choose(end(e)); });
    this.box.addEventListener('pointercancel', () => { end(); this.show(this.part); });
  }
  show(part) {
    this.mark.hidden = !part;
    if (!part) return;
    this.mark.style.left = 100 * part[0] / this.slices + '%';
    this.mark.style.width = 100 * (part[1] - part[0]) / this.slices + '%';
  }
  choose(part) {
    view.put({ time: part ? part.join('-') : '' });
    this.take(part);
  }
  take(part) {
    const same = String(part) === String(this.part);
    this.part = part;
    this.show(part);
    this.tell();
    if (!same) this.changed();
  }
  restore() {
    const found = view.get('time').match(/^(\d+)-(\d+)$/);
    const part = found && [Number(found[1]), Math.min(Number(found[2]), this.slices)];
    this.take(part && part[0] < part[1] ? part : null);
  }
  tell() {
    this.all.hidden = !this.part;
    const { slice_s } = this.course;
    this.said.textContent = this.part ? seconds(slice_s * this.part[0]) + ' to ' + seconds(slice_s * this.part[1]) + ': ' +
      seconds(this.spent().all) + ' of processor time' : 'Draw over a part of it to see what ran then.';
  }
  // In the part: all, and by function and thread, each [user, kernel] seconds.
  spent() {
    const by = { all: 0, functions: new Map(), threads: new Map() };
    const add = (map, key, user, kernel) => {
      const sum = map.get(key) || [0, 0];
      map.set(key, [sum[0] + user, sum[1] + kernel]);
    };
    for (const [slice, thread, f, user, kernel] of this.course.rows) {
      if (this.part && (slice < this.part[0] || slice >= this.part[1])) continue;
      by.all += user + kernel;
      if (f >= 0) add(by.functions, f, user, kernel);
      if (thread >= 0) add(by.threads, this.course.threads[thread][2], user, kernel);
    }
    return by;
  }
}

