const data = JSON.parse(document.getElementById('data').textContent);
const byId = id => document.getElementById(id);
const make = (tag, attrs = {}, ...children) => {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs)) e.setAttribute(k, v);
  e.append(...children);
  return e;
};
const drawn = (tag, attrs = {}, ...children) => {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [k, v] of Object.entries(attrs)) e.setAttribute(k, v);
  e.append(...children);
  return e;
};
// A cell is a text, a number as [text, value], or a list that is shown cut as {text, full}.
const cellText = c => Array.isArray(c) ? c[0] : typeof c === 'object' ? c.text : c;
const cellFull = c => c.full || cellText(c);
const cellValue = c => Array.isArray(c) ? (c[1] === null ? -Infinity : c[1]) : null;
const column = (t, key) => t.columns.findIndex(c => c.key === key);
const put = (id, ...children) => byId(id).querySelector('[data-body]').replaceChildren(...children);

/// A name or one word, such as a path of modules, differs from others at its end: where it has no room, its head gives way.
const nameElement = (text, named = false) =>
  !named && /\S\s/.test(text) ? make('span', {}, text) : make('span', {class: 'path'}, make('bdi', {}, text));

// Columns in which no cell says anything are left out.
const spoken = t => t.columns.map((c, i) => i).filter(i => !t.rows.length || t.rows.some(r => cellText(r[i]) !== ''));

function bodyRow(t, columns, r) {
  return make('tr', {}, ...columns.map(i => {
    const text = cellText(r[i]), key = t.columns[i].key, named = key === 'name' || key === 'path',
          td = t.columns[i].text ? make('td', {class: 'text', title: cellFull(r[i])}, nameElement(text, named)) : make('td', {}, text);
    td.dataset.key = key;
    if (key === 'share' && cellValue(r[i]) > 0) {
      td.classList.add('share');
      td.style.setProperty('--part', `${100 * cellValue(r[i])}%`);
    }
    if (/^\S{1,24}$/.test(text)) td.classList.add('word');
    if (key === 'result') td.classList.add(text === 'matched' ? 'yes' : 'no');
    return td;
  }));
}

/// By a pointer, or by Enter and Space where it has the focus.
function pressed(element, act) {
  element.addEventListener('click', act);
  element.addEventListener('keydown', e => {
    if (e.key !== 'Enter' && e.key !== ' ') return;
    e.preventDefault();
    act();
  });
}

// --- drawings are as wide as there is room, so that their texts stay readable on a phone, and are drawn again when that changes
const roomFor = () => {
  const main = document.querySelector('main'), style = getComputedStyle(main);
  return Math.max(280, Math.floor(main.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight)));
};
const fitted = [];
/// An element that draw(width) fills, now and whenever the window's width changes.
function fittedDrawing(draw) {
  const holder = make('div');
  const fill = () => holder.replaceChildren(draw(roomFor()));
  fitted.push([holder, fill]);
  fill();
  return holder;
}
let drawnFor = innerWidth;
addEventListener('resize', () => {
  if (innerWidth === drawnFor) return;
  drawnFor = innerWidth;
  for (const [holder, fill] of fitted) if (holder.isConnected) fill();
});

/// Marks on a drawing that say what they are: by a pointer, a finger, or the arrow keys once the drawing has the focus.
function spokenMarks(svg, marks, texts) {
  const said = make('p', {class: 'said', 'aria-live': 'polite'}, 'Point at a mark, or use the arrow keys, to hear of it.');
  let at = -1;
  const say = i => {
    if (marks[at]) marks[at].classList.remove('chosen');
    at = i;
    marks[at].classList.add('chosen');
    said.textContent = texts[at];
  };
  marks.forEach((m, i) => {
    m.append(drawn('title', {}, texts[i]));
    for (const event of ['pointerenter', 'click']) m.addEventListener(event, () => say(i));
  });
  svg.setAttribute('tabindex', '0');
  svg.addEventListener('keydown', e => {
    const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[e.key];
    if (!step || !marks.length) return;
    e.preventDefault();
    say((at < 0 ? (step > 0 ? 0 : marks.length - 1) : at + step + marks.length) % marks.length);
  });
  return said;
}

/// A table whose headers sort it; with `filter`, a search field above that keeps the rows holding every word.
function tableElement(t, {filter = '', onRow = null} = {}) {
  const head = make('tr'), body = make('tbody'), columns = spoken(t);
  let rows = t.rows, words = [];
  const fill = () => body.replaceChildren(...rows.filter(r => {
    const all = r.map(cellFull).join(' ').toLowerCase();
    return words.every(w => all.includes(w));
  }).map(r => {
    const tr = bodyRow(t, columns, r), name = column(t, 'name');
    if (name >= 0) tr.dataset.name = cellText(r[name]);
    if (onRow) {
      tr.style.cursor = 'pointer';
      tr.tabIndex = 0;
      pressed(tr, () => onRow(r));
    }
    return tr;
  }));
  for (const i of columns) {
    const c = t.columns[i], th = make('th', c.text ? {class: 'text', scope: 'col'} : {scope: 'col'}, make('button', {type: 'button', 'aria-label': c.title.trim() || c.key}, c.title));
    th.dataset.key = c.key;
    th.addEventListener('click', () => {
      const down = th.getAttribute('aria-sort') !== 'descending';
      for (const other of head.children) other.removeAttribute('aria-sort');
      th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      rows = t.rows.map((r, k) => [r, k]).sort(([a, x], [b, y]) => {
        const u = cellValue(a[i]), v = cellValue(b[i]);
        const order = u !== null && v !== null ? u - v : String(cellText(a[i])).localeCompare(String(cellText(b[i])));
        return (down ? -order : order) || x - y;
      }).map(([r]) => r);
      fill();
    });
    head.append(th);
  }
  fill();
  const out = make('div', {}, make('div', {class: 'wrap', tabindex: '0', role: 'region', 'aria-label': `${t.title}, scrolls`},
                                   make('table', {'aria-label': t.title}, make('thead', {}, head), body)));
  if (filter) {
    const input = make('input', {type: 'search', placeholder: filter, 'aria-label': filter});
    input.addEventListener('input', () => {
      words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      fill();
    });
    out.prepend(make('div', {class: 'toolbar'}, input));
  }
  if (t.note) out.append(make('p', {class: 'note'}, t.note));
  return out;
}

const sides = ['before', 'after'].filter(s => data[s]);
const sideTitle = {
  before: data.bench ? data.bench.before_name : 'before',
  after: data.bench ? data.bench.after_name : 'as profiled'
};
function tabsFor(tabs, choices, show, first) {
  const press = key => {
    for (const b of tabs.children) b.setAttribute('aria-pressed', b.dataset.key === key);
    show(key);
  };
  for (const [key, title] of choices) {
    const b = make('button', {type: 'button', 'data-key': key}, title);
    b.addEventListener('click', () => press(key));
    tabs.append(b);
  }
  press(first);
}
function perSide(section, render, shown = sides) {
  const tabs = section.querySelector('[data-sides]');
  if (shown.length < 2) tabs.hidden = true;
  if (shown.length) tabsFor(tabs, shown.map(s => [s, sideTitle[s]]), render, shown[shown.length - 1]);
  else section.hidden = true;
}

// --- the head: what came of it, in five figures
// A name breaks behind its parts before it breaks inside of one.
byId('title').append(...data.title.split(/(?<=[._\/-])/).flatMap((part, i) => i ? [make('wbr'), part] : [part]));
const card = (value, label, kind = '', ...more) =>
  byId('cards').append(make('div', {class: `card ${kind}`}, make('b', {}, value), make('span', {}, label), ...more));

/// The interval as a line over a scale on which 1× is marked.
function intervalDrawing({low, high, speedup, faster}) {
  const W = 190, lowest = Math.min(0.9, low * 0.97), highest = Math.max(1.1, high * 1.03);
  const x = v => W * (v - lowest) / (highest - lowest), colour = faster ? 'var(--good)' : high < 1 ? 'var(--bad)' : 'var(--dim)';
  return drawn('svg', {viewBox: `0 0 ${W} 14`, width: '100%', style: `max-width:${W}px`, role: 'img', 'aria-label': `interval from ${low.toFixed(2)} to ${high.toFixed(2)}`},
    drawn('line', {x1: 0, x2: W, y1: 7, y2: 7, stroke: 'var(--line)'}),
    drawn('line', {x1: x(1), x2: x(1), y1: 1, y2: 13, stroke: 'var(--dim)', 'stroke-dasharray': '2 2'}),
    drawn('line', {x1: x(low), x2: x(high), y1: 7, y2: 7, stroke: colour, 'stroke-width': 4, 'stroke-linecap': 'round'}),
    drawn('circle', {cx: x(speedup), cy: 7, r: 4.5, fill: colour}));
}
if (data.bench) {
  const b = data.bench;
  byId('verdict').textContent = b.verdict;
  card(
      b.speedup.toFixed(2) + '×', `95% interval ${b.low.toFixed(2)} to ${b.high.toFixed(2)}`,
      b.faster       ? 'good' :
          b.high < 1 ? 'bad' :
                       '',
      intervalDrawing(b));
  const median = b.qa.rows.find(r => cellText(r[0]) === 'median');
  card(`${cellText(median[1])} → ${cellText(median[2])}`, `median latency, ${b.before_name} → ${b.after_name}`);
} else {
  for (const s of sides) card(data[s].latency, `one run, ${data.imported ? 'mean' : 'median'}`);
}
if (sides.length) card(
    sides.map(s => data[s].steps.rows.length).join(' → '),
    `steps${sides.length > 1 ? `, ${sideTitle.before} → ${sideTitle.after}` : ''}`);
if (data.rewrites) {
  const matched = column(data.rewrites, 'matched'), rejected = column(data.rewrites, 'rejected');
  const sum = i => data.rewrites.rows.reduce((n, r) => n + cellValue(r[i]), 0);
  card(`${sum(matched)} / ${sum(rejected)}`, 'places matched / rejected with a reason');
}
if (data.errors) {
  const rms = column(data.errors, 'rms_rel'),
        worst = data.errors.rows.reduce((w, r) => cellValue(r[rms]) > cellValue(w[rms]) ? r : w);
  card(cellText(worst[rms]), `relative error (rms) against ${sideTitle.before}, worst output`);
}

// --- where the time goes
const causes = {
  compute: 'arithmetic',
  memory: 'memory traffic',
  latency: 'neither roof: latency, or a slow kernel',
  launch: 'starting the step',
  unknown: ''
};
const causeColour = cause => `var(--${cause in causes && cause ? cause : 'unknown'})`;
const fusedName = op => op.replace(/^ai\.smelt\./, 'fused ');
const palette = ['#b5460f', '#2a6fb0', '#1c7f4a', '#7a56b3', '#9a6a00', '#0f7c86', '#a8326e', '#5b6470'];
function kindsBar(t) {
  const us = column(t, 'self_us'), op = column(t, 'op'), share = column(t, 'share'), sums = new Map();
  for (const r of t.rows) {
    const s = sums.get(cellText(r[op])) || {us: 0, share: 0, count: 0};
    sums.set(cellText(r[op]), {us: s.us + cellValue(r[us]), share: s.share + cellValue(r[share]), count: s.count + 1});
  }
  const sorted = [...sums].sort((a, b) => b[1].us - a[1].us), shown = sorted.slice(0, 7);
  const rest = sorted.slice(7).reduce((s, [, v]) => ({share: s.share + v.share, count: s.count + v.count}), {share: 0, count: 0});
  if (rest.count) shown.push(['other', rest]);
  const text = ([name, v]) => `${fusedName(name)} ${(100 * v.share).toFixed(1)}% (${v.count})`;
  return make(
      'div', {class: 'kinds'},
      ...shown.map(
          (k, i) => make(
              'div', {style: `flex:${Math.max(k[1].share, 0.001)} 0 0;background:${palette[i]}`, title: text(k)},
              k[1].share > 0.06 ? text(k) : '')));
}
let toNode = () => {};
perSide(byId('bars'), side => {
  const t = data[side].steps, us = column(t, 'self_us'), share = column(t, 'share'), op = column(t, 'op'),
        name = column(t, 'name');
  const roof = column(t, 'roof_share'), limiter = column(t, 'limiter'), known = t.rows.some(r => Array.isArray(r[roof]));
  const rows = [...t.rows].sort((a, b) => cellValue(b[us]) - cellValue(a[us])).slice(0, 15);
  const most = rows.length ? cellValue(rows[0][us]) : 1;
  const bar = r => {
    const cause = limiter < 0 ? '' : cellText(r[limiter]),
          fill = make('div', {class: 'fill', style: `width:${100 * cellValue(r[us]) / most}%;--kind:${causeColour(cause)}`});
    fill.append(make('div', {class: 'floor', style: `width:${known ? Math.min(100, 100 * cellValue(r[roof])) : 100}%`}));
    const line = make(
        'div', {
          class: 'bar', role: 'button', tabindex: '0',
          title: `${cellText(r[name])}: ${cellText(r[us])}${known ? `, ${cellText(r[roof])} of roof` : ''}${
              cause ? `, limited by ${causes[cause]}` : ''}`
        },
        make('div', {class: 'label'}, nameElement(cellText(r[name]), true), make('i', {}, fusedName(cellText(r[op])))),
        make('div', {class: 'track'}, fill), make('div', {class: 'cause'}, cause),
        make('div', {class: 'value'}, `${cellText(r[us])}  ${cellText(r[share])}`));
    pressed(line, () => toNode(side, cellText(r[name])));
    return line;
  };
  const seen = [...new Set(rows.map(r => limiter < 0 ? '' : cellText(r[limiter])))].filter(Boolean);
  const legend = make(
      'div', {class: 'legend'},
      ...seen.map(c => make('span', {}, make('i', {style: `background:${causeColour(c)}`}), `${c}: ${causes[c]}`)));
  if (known) legend.append(make('span', {}, 'full colour: the least time that the machine\u2019s measured roof allows'));
  put('bars', kindsBar(t), make('div', {}, ...rows.map(bar)), legend, make('p', {class: 'note'}, t.note));
});
const stepFilter = {filter: 'Filter: step, operator, tactic, problem'};
perSide(byId('steps'), side => put('steps', tableElement(data[side].steps, {
                                     ...stepFilter,
                                     onRow: r => toNode(side, cellText(r[column(data[side].steps, 'name')]))
                                   })));
// The whole alone says nothing that is not said above.
perSide(byId('scopes'), side => put('scopes', tableElement(data[side].scopes, {filter: 'Filter: module'})),
        sides.filter(s => data[s].scopes.rows.length > 1));

for (const id of ['nodes', 'inside'])
  perSide(byId(id), side => put(id, tableElement(data[side][id], {filter: 'Filter: node, operator'})), sides.filter(s => data[s][id]));

// --- memory over the time of one run: what a step holds, from its beginning to the next one's
const heldParts = [['inputs and outputs', 'var(--launch)'], ['activations', 'var(--cool)'], ['workspace', 'var(--hot)']];
function heldDrawing({steps, weights, peak, peak_step}, W) {
  const H = 190, floor = H - 20, begin = steps[0].begin_us, end = steps[steps.length - 1].end_us;
  const sum = s => s.bytes.reduce((a, b) => a + b, 0), most = Math.max(1, ...steps.map(sum));
  const x = us => W * (us - begin) / Math.max(1e-9, end - begin), y = bytes => floor - (floor - 14) * bytes / most;
  const until = i => x(i + 1 < steps.length ? steps[i + 1].begin_us : end), label = {fill: 'var(--dim)', 'font-size': 11};
  const svg = drawn('svg', {viewBox: `0 0 ${W} ${H}`, width: W, height: H, style: 'display:block', role: 'img', 'aria-label': `Memory over one run: ${peak} at most`});
  for (let part = heldParts.length; part-- > 0;) {   // the whole first: each layer is drawn over the lower part of those above it
    const top = s => y(s.bytes.slice(0, part + 1).reduce((a, b) => a + b, 0));
    const outline = steps.map((s, i) => `V${top(s)}H${until(i)}`).join('');
    svg.append(drawn('path', {d: `M0 ${floor}${outline}V${floor}Z`, fill: heldParts[part][1], 'data-part': heldParts[part][0]}));
  }
  const marks = steps.map((s, i) => drawn(
      'rect', {x: x(s.begin_us), y: 0, width: Math.max(0, until(i) - x(s.begin_us)), height: floor, fill: 'transparent'}));
  svg.append(...marks);
  const at = steps.findIndex(s => sum(s) === most);
  const middle = (x(steps[at].begin_us) + until(at)) / 2, anchor = middle < W / 3 ? 'start' : middle > 2 * W / 3 ? 'end' : 'middle';
  svg.append(
      drawn('text', {x: middle, y: 10, 'text-anchor': anchor, ...label}, `${peak} with the weights, ${peak_step}`),
      drawn('text', {x: W, y: H - 5, 'text-anchor': 'end', ...label}, `time of one run; beside weights of ${weights}`));
  const legend = heldParts.map(([name, colour]) => make('span', {}, make('i', {style: `background:${colour}`}), name));
  return make('figure', {}, svg, spokenMarks(svg, marks, steps.map(s => `${s.name}: ${s.text}`)), make('div', {class: 'legend'}, ...legend));
}
perSide(byId('memory'), side => put(
    'memory', ...(data[side].held.steps.length ? [fittedDrawing(w => heldDrawing(data[side].held, w))] : []), tableElement(data[side].memory)),
        sides.filter(s => data[s].memory));
perSide(byId('copies'), side => put('copies', tableElement(data[side].copies)), sides.filter(s => data[s].copies));

// --- every run, in the order taken
/// The unit in which `high` is read, and how many of it a millisecond has.
const unitOf = high => high < 1e-3 ? ['ns', 1e6] : high < 1 ? ['µs', 1e3] : high < 1e3 ? ['ms', 1] : ['s', 1e-3];
function samplesDrawing(b, W) {
  const H = 250, left = 56, bottom = 24, all = [...b.before_ms, ...b.after_ms], high = Math.max(...all) * 1.06;
  const count = Math.max(b.before_ms.length, b.after_ms.length, 2);
  const x = i => left + 8 + (W - left - 16) * i / (count - 1), y = ms => (H - bottom) * (1 - ms / high) + 2;
  const [unit, perMs] = unitOf(high);
  const svg = drawn(
      'svg', {viewBox: `0 0 ${W} ${H}`, width: W, height: H, style: 'display:block;max-width:100%', role: 'img', 'aria-label': 'latency of every run'});
  const text = (at, s, more = {}) => drawn('text', {fill: 'var(--dim)', 'font-size': 11, ...at, ...more}, s);
  const step = 10 ** Math.floor(Math.log10(high / 2)), tick = [5, 2, 1].map(k => k * step).find(k => high / k >= 3) || step;
  for (let ms = 0; ms <= high; ms += tick)
    svg.append(
        drawn('line', {x1: left, x2: W, y1: y(ms), y2: y(ms), stroke: 'var(--line)'}),
        text({x: left - 6, y: y(ms) + 4, 'text-anchor': 'end'}, `${+ (ms * perMs).toPrecision(6)} ${unit}`));
  const median = list => [...list].sort((a, c) => a - c)[Math.floor(list.length / 2)];
  for (const [samples, colour, label] of [
           [b.before_ms, 'var(--hot)', b.before_name], [b.after_ms, 'var(--cool)', b.after_name]]) {
    const m = median(samples);
    svg.append(drawn('line', {x1: left, x2: W, y1: y(m), y2: y(m), stroke: colour, 'stroke-dasharray': '5 4', opacity: .8}));
    samples.forEach(
        (ms, i) => svg.append(drawn(
            'circle', {cx: x(i), cy: y(ms), r: samples.length > 150 ? 2 : 3.2, fill: colour, 'fill-opacity': 0.75},
            drawn('title', {}, `${label}, run ${i + 1}: ${(ms * perMs).toPrecision(4)} ${unit}`))));
  }
  svg.append(text({x: W - 4, y: H - 6, 'text-anchor': 'end'}, 'run, in the order taken; the two plans run in turn'));
  return svg;
}
if (data.bench) {
  put('qa', tableElement(data.bench.qa));
  const swatch = (colour, name) => make('span', {}, make('i', {style: `background:${colour}`}), `${name} (dashed: its median)`);
  byId('samples').append(
      fittedDrawing(w => samplesDrawing(data.bench, w < 868 ? w : (w - 28) / 2)),   // beside the table where both have room
      make('div', {class: 'legend'}, swatch('var(--hot)', sideTitle.before), swatch('var(--cool)', sideTitle.after)));
} else {
  byId('qa').hidden = true;
}

// --- what was tried
for (const id of ['errors', 'slower', 'rewrites', 'fused', 'groups']) if (data[id]) put(id, tableElement(data[id])); else byId(id).hidden = true;
if (data.forms && data.forms.rows.length) byId('forms').append(tableElement(data.forms)); else byId('forms').hidden = true;
if (data.errors) byId('errors').querySelector('h2').append(`, ${sideTitle.after} against ${sideTitle.before}`);
if (data.ledger) put('ledger', tableElement(data.ledger, {filter: 'Filter: rewrite, result, reason, node'}));
else byId('ledger').hidden = true;

for (const id of ['machine', 'versions'])
  byId(id).append(...data[id].flatMap(([k, v]) => [make('dt', {}, k), make('dd', {}, v)]));
