// What to do, the roof with the steps below it, and one run over time.

const limiterLegend = seen => make(
    'div', {class: 'legend'},
    ...seen.filter(Boolean).map(c => make('span', {}, make('i', {style: `background:${causeColour(c)}`}), `${c}: ${causes[c]}`)));

// --- what to do
/// Shows a step's row in the table of steps.
function toStep(side, name) {
  const section = byId('steps'), tab = section.querySelector(`[data-sides] [data-key="${side}"]`);
  if (tab && tab.getAttribute('aria-pressed') !== 'true') tab.click();
  const filter = section.querySelector('input');
  if (filter && filter.value) filter.value = '', filter.dispatchEvent(new Event('input'));
  for (const tr of section.querySelectorAll('tr.found')) tr.classList.remove('found');
  const row = [...section.querySelectorAll('tbody tr')].find(tr => tr.dataset.name === name);
  if (!row) return section.scrollIntoView();
  row.classList.add('found');
  row.scrollIntoView({block: 'center'});
  row.focus({preventScroll: true});
}
perSide(byId('next'), side => {
  const t = data[side].advice, [what, us, share, why, from, steps, tried] =
      ['what', 'us', 'share', 'why', 'from', 'steps', 'tried_us'].map(key => column(t, key));
  const place = (side, name) => {
    const a = make('a', {href: '#steps'}, name);
    a.addEventListener('click', e => { e.preventDefault(); toStep(side, name); });
    return a;
  };
  const known = new Set(data[side].steps.rows.map(r => cellText(r[column(data[side].steps, 'name')])));
  const item = r => {
    const names = cellFull(r[steps]).split(', ').filter(n => n && known.has(n)), li = make('li', {});
    li.append(
        make('b', {class: 'won'}, (cellText(r[from]) === 'roof' ? 'at most ' : '') + cellText(r[us])),
        make('span', {class: 'part'}, ` ${cellText(r[share])} of a run` + (Number.isFinite(cellValue(r[tried])) ? `, ${cellText(r[tried])} when tried` : '')),
        make('p', {class: 'what'}, cellText(r[what])), make('p', {class: 'note'}, `${cellText(r[why])} (from: ${cellText(r[from])})`));
    if (names.length) {
      const where = make('p', {class: 'where'}, 'where: ');
      names.slice(0, 4).forEach((n, i) => where.append(i ? ', ' : '', place(side, n)));
      if (names.length > 4) where.append(` and ${names.length - 4} more`);
      li.append(where);
    }
    return li;
  };
  const shown = t.rows.slice(0, 5), more = t.rows.slice(5), parts = [];
  if (data[side].others) parts.push(make('p', {class: 'warning'}, data[side].others));
  if (shown.length) parts.push(make('ol', {class: 'advice'}, ...shown.map(item)));
  else parts.push(make('p', {}, 'Nothing that is known to save half a percent of a run.'));
  if (more.length)
    parts.push(make('details', {}, make('summary', {}, `${more.length} more`), make('ol', {class: 'advice', start: 6}, ...more.map(item))));
  if (t.rows.length > 1) parts.push(make('p', {class: 'note'}, t.note + '.'));
  if (!data[side].roofline.steps.length && !data.imported)
    parts.push(make('p', {class: 'note'}, 'What limits a step needs the machine\u2019s ceilings once: smelt devices --measure'));
  put('next', ...parts);
});

// --- the roof
const power = v => v >= 1e12 ? `${+ (v / 1e12).toPrecision(3)} T` : v >= 1e9 ? `${+ (v / 1e9).toPrecision(3)} G` :
    v >= 1e6 ? `${+ (v / 1e6).toPrecision(3)} M` : v >= 1e3 ? `${+ (v / 1e3).toPrecision(3)} k` : `${+v.toPrecision(3)}`;
function roofDrawing({bytes_per_s, text, rates, steps}, W) {
  const H = Math.min(460, Math.max(300, W * 0.45)), left = 64, right = 12, top = 14, bottom = 46;
  const computing = steps.filter(s => s.intensity > 0), moving = steps.filter(s => !(s.intensity > 0));
  const peak = Math.max(...rates.map(r => r.flops_per_s), 1);
  const ridge = peak / bytes_per_s, intensities = computing.map(s => s.intensity);
  const lowest = Math.min(ridge / 8, 0.25, ...intensities), highest = Math.max(ridge * 8, ...intensities) * 1.5;
  const at = lowest / 4;   // the column of steps that only move: their bytes a second below the same roof
  const x0 = Math.log10(at / 2), x1 = Math.log10(highest);
  const reached = [...computing.map(s => s.flops_per_s), ...moving.map(s => s.bytes_per_s * at)].filter(v => v > 0);
  const y0 = Math.log10(Math.max(1, Math.min(at * bytes_per_s / 10, ...reached))) - 0.15, y1 = Math.log10(Math.max(peak, ...reached)) + 0.25;
  const x = v => left + (W - left - right) * (Math.log10(v) - x0) / (x1 - x0);
  const y = v => top + (H - top - bottom) * (1 - (Math.log10(Math.max(v, 1)) - y0) / (y1 - y0));
  const svg = drawn('svg', {
    width: W, height: H, viewBox: `0 0 ${W} ${H}`, role: 'img',
    'aria-label': `Roofline: ${steps.length} steps below ${text} of memory and ${rates.map(r => `${r.text} in ${r.type}`).join(', ')}`
  });
  const label = (at, s, more = {}) => drawn('text', {fill: 'var(--dim)', 'font-size': 11, ...at, ...more}, s);
  for (let e = Math.ceil(y0); e <= y1; ++e)
    svg.append(
        drawn('line', {x1: left, x2: W - right, y1: y(10 ** e), y2: y(10 ** e), stroke: 'var(--line)'}),
        label({x: left - 6, y: y(10 ** e) + 4, 'text-anchor': 'end'}, power(10 ** e)));
  const every = Math.ceil((x1 - x0) * 46 / (W - left - right));
  for (let e = Math.ceil(Math.log10(lowest)); e <= x1; e += every)
    svg.append(
        drawn('line', {x1: x(10 ** e), x2: x(10 ** e), y1: top, y2: H - bottom, stroke: 'var(--line)'}),
        label({x: x(10 ** e), y: H - bottom + 15, 'text-anchor': 'middle'}, power(10 ** e)));
  if (moving.length) svg.append(label({x: x(at), y: H - bottom + 15, 'text-anchor': 'middle'}, 'moves'));
  svg.append(
      label({x: W - right, y: H - 8, 'text-anchor': 'end'}, 'operations a byte'),
      label({x: left, y: H - 8}, 'up: operations a second'));
  for (const r of rates) {
    const bend = r.flops_per_s / bytes_per_s;
    svg.append(
        drawn('path', {
          d: `M${x(10 ** x0)} ${y(10 ** x0 * bytes_per_s)}L${x(bend)} ${y(r.flops_per_s)}H${W - right}`,
          fill: 'none', stroke: 'var(--ink)', 'stroke-width': 1.5, 'data-roof': r.type
        }),
        label({x: Math.min(x(bend), W - right - 110), y: y(r.flops_per_s) - 5}, `${r.text}, ${r.type}`));
  }
  const slope = Math.sqrt(at * ridge);
  svg.append(label({x: x(slope) - 6, y: y(slope * bytes_per_s) - 6, 'text-anchor': 'end'}, text));
  const most = Math.max(...steps.map(s => s.us)), sorted = [...steps].sort((a, b) => b.us - a.us);
  const marks = sorted.map(s => drawn('circle', {
    cx: x(s.intensity > 0 ? s.intensity : at), cy: y(s.intensity > 0 ? s.flops_per_s : s.bytes_per_s * at),
    r: 3 + 9 * Math.sqrt(s.us / most), fill: causeColour(s.limiter), 'fill-opacity': 0.6, stroke: causeColour(s.limiter)
  }));
  svg.append(...marks);
  return make('figure', {}, svg, spokenMarks(svg, marks, sorted.map(s => `${s.name}: ${s.text}`)));
}
perSide(byId('roofline'), side => put(
    'roofline', fittedDrawing(w => roofDrawing(data[side].roofline, w)),
    limiterLegend([...new Set(data[side].roofline.steps.map(s => s.limiter))]),
    make('p', {class: 'note'},
         'Each step by what it must move and compute, whatever its kernel does beside that; larger ones take longer. Above the roof: ' +
             'in caches, or by an algorithm of fewer operations (Winograd).')),
        sides.filter(s => data[s].roofline.steps.length));

// --- one run over time
function timelineDrawing(steps, W) {
  const begin = steps[0].begin_us, end = steps[steps.length - 1].end_us, H = 92, modules = [];
  const x = us => W * (us - begin) / Math.max(1e-9, end - begin);
  for (const s of steps) {
    const last = modules[modules.length - 1];
    if (last && last.name === s.module) last.end = s.end_us;
    else modules.push({name: s.module, begin: s.begin_us, end: s.end_us});
  }
  const svg = drawn('svg', {width: W, height: H, viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': `${steps.length} steps of one run, in order`});
  for (const m of modules.filter(m => m.name)) {
    const width = x(m.end) - x(m.begin), shown = m.name.split('/').pop();
    svg.append(drawn('rect', {x: x(m.begin), y: 2, width: Math.max(0.5, width - 1), height: 20, fill: 'var(--panel)', stroke: 'var(--line)'},
                     drawn('title', {}, m.name)));
    if (width > 8 * shown.length)
      svg.append(drawn('text', {x: x(m.begin) + 4, y: 16, 'font-size': 11, fill: 'var(--dim)'}, shown));
  }
  const marks = steps.map(s => drawn('rect', {
    x: x(s.begin_us), y: 26, width: Math.max(0.6, x(s.end_us) - x(s.begin_us) - 0.3), height: 44, fill: causeColour(s.limiter)
  }));
  svg.append(...marks, drawn('text', {x: 0, y: H - 6, 'font-size': 11, fill: 'var(--dim)'}, '0'),
             drawn('text', {x: W, y: H - 6, 'text-anchor': 'end', 'font-size': 11, fill: 'var(--dim)'}, timeText(end - begin)));
  return make('figure', {}, svg, spokenMarks(svg, marks, steps.map(s =>
      `${s.name}: ${timeText(s.end_us - s.begin_us)}${s.limiter ? `, limited by ${s.limiter}` : ''}`)));
}
const timeText = us => us < 1 ? `${+ (us * 1e3).toPrecision(3)} ns` : us < 1e3 ? `${+us.toPrecision(3)} µs` :
    us < 1e6 ? `${+ (us / 1e3).toPrecision(3)} ms` : `${+ (us / 1e6).toPrecision(3)} s`;
perSide(byId('timeline'), side => put(
    'timeline', fittedDrawing(w => timelineDrawing(data[side].held.steps, w)),
    limiterLegend([...new Set(data[side].held.steps.map(s => s.limiter))])),
        sides.filter(s => data[s].held && data[s].held.steps.length));
