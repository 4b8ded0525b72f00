// Models on the same cores: what each loses to the others, what helps, and their requests on one clock.

function togetherDrawing({us, models}, W) {
  const row = 74, H = row * models.length + 22, x = t => W * t / Math.max(1e-9, us), marks = [], texts = [];
  const clip = t => Math.min(us, Math.max(0, t));
  const svg = drawn('svg', {
    width: W, height: H, viewBox: `0 0 ${W} ${H}`, role: 'img',
    'aria-label': `${timeText(us)} of ${models.map(m => m.model).join(' and ')} on one clock`
  });
  models.forEach((m, i) => {
    const top = row * i, colour = palette[i % palette.length];
    svg.append(drawn('text', {x: 0, y: top + 14, 'font-size': 12, fill: 'var(--ink)'}, m.model));
    for (const r of m.requests) {
      const a = x(clip(r.arrival_us)), b = x(clip(r.begin_us)), c = x(clip(r.end_us));
      if (b - a > 0.5)
        svg.append(drawn('rect', {x: a, y: top + 22, width: b - a, height: 6, fill: colour, 'fill-opacity': 0.3}, drawn('title', {}, 'waits')));
      const mark = drawn('rect', {x: b, y: top + 30, width: Math.max(0.6, c - b - 0.4), height: 20, fill: colour, 'fill-opacity': 0.75});
      svg.append(mark);
      marks.push([r.begin_us, mark]);
      const waited = r.begin_us - r.arrival_us;
      texts.push([r.begin_us, `${m.model}: a request of ${timeText(r.end_us - r.begin_us)}${waited > 1 ? `, waited ${timeText(waited)} before` : ''}, from ${timeText(Math.max(0, r.begin_us))}`]);
      r.steps_us.forEach(([from, to], s) => {
        const left = x(clip(from)), right = x(clip(to));
        if (right - left > 0.4)
          svg.append(drawn('rect', {x: left, y: top + 52, width: Math.max(0.4, right - left - 0.3), height: 12, fill: colour, 'fill-opacity': s % 2 ? 0.35 : 0.6},
                           drawn('title', {}, `${m.model}, ${m.steps[s] || ''}: ${timeText(to - from)}`)));
      });
    }
  });
  const label = {'font-size': 11, fill: 'var(--dim)', y: H - 6};
  svg.append(drawn('text', {x: 0, ...label}, '0'), drawn('text', {x: W, 'text-anchor': 'end', ...label}, timeText(us)));
  const inOrder = list => list.sort((a, b) => a[0] - b[0]).map(p => p[1]);
  return make('figure', {}, svg, spokenMarks(svg, inOrder(marks), inOrder(texts)));
}
if (data.together) {
  const t = data.together;
  byId('verdict').textContent = t.verdict;
  const times = (r, key) => `${cellValue(r[column(t.models, key)]).toFixed(2)}\u00d7`;
  for (const r of t.models.rows)
    card(`${times(r, 'slower')} as long`, `${cellText(r[column(t.models, 'model')])}, against alone; expected ${times(r, 'predicted')}`);
  const best = t.timelines[t.timelines.length - 1].arrangement, remedies = t.remedies;
  const p99 = name => cellText(remedies.rows.find(r => cellText(r[0]) === name)[column(remedies, 'p99_us')]);
  card(`${p99(t.timelines[0].arrangement)}${t.timelines.length > 1 ? ` → ${p99(best)}` : ''}`,
       t.timelines.length > 1 ? `its p99, ${t.timelines[0].arrangement} → ${best}` : 'its p99, as they are', t.timelines.length > 1 ? 'good' : '');
  const drawings = t.timelines.map(
      line => make('div', {}, make('h3', {}, line.arrangement), fittedDrawing(w => togetherDrawing(line, w))));
  put('together', tableElement(remedies), tableElement(t.models), ...drawings,
      make('p', {class: 'note'}, 'Of each model: above, what waited for the requests before it; a bar a request; below, its steps.'),
      make('h3', {}, t.steps.title), tableElement(t.steps, {filter: 'Filter: step, operator'}));
} else {
  byId('together').hidden = true;
}
