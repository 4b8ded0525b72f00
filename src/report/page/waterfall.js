// From a run before to one after: what each fused group won or cost, as bars that begin where the last one ended.

function waterfallDrawing(t, W) {
  const [name, part, change, from, to] = ['step', 'part', 'change_us', 'from_us', 'to_us'].map(key => column(t, key));
  const narrow = W < 640, labels = narrow ? 0 : Math.min(330, W * 0.34), values = narrow ? 86 : 100;
  const row = narrow ? 44 : 26, bar = 18, H = row * t.rows.length + 4, room = W - labels - values;
  const most = Math.max(...t.rows.flatMap(r => [cellValue(r[from]), cellValue(r[to])]), 1e-9), x = us => labels + room * us / most;
  const whole = r => ['before', 'after'].includes(cellText(r[part]));
  const colour = r => cellText(r[part]) === 'before' ? 'var(--hot)' : cellText(r[part]) === 'after' ? 'var(--cool)' :
      cellValue(r[change]) > 0 ? 'var(--bad)' : 'var(--good)';
  const said = r => whole(r) ? cellText(r[to]) : `${cellValue(r[change]) > 0 ? '+' : ''}${cellText(r[change])}`;
  const svg = drawn('svg', {
    width: W, height: H, viewBox: `0 0 ${W} ${H}`, role: 'img',
    'aria-label': `Waterfall: ${said(t.rows[0])} before, ${said(t.rows[t.rows.length - 1])} after, ${t.rows.length - 2} changes between`
  });
  const cut = (s, width) => s.length * 6.6 <= width ? s : '…' + s.slice(-Math.max(3, Math.floor(width / 6.6) - 1));
  const marks = t.rows.map((r, i) => {
    const top = row * i + (narrow ? 20 : 4), a = whole(r) ? 0 : cellValue(r[from]), b = cellValue(r[to]);
    svg.append(drawn(
        'text', {x: narrow ? 0 : labels - 10, y: narrow ? top - 5 : top + 13, 'text-anchor': narrow ? 'start' : 'end', 'font-size': 12, fill: 'var(--ink)'},
        cut(cellText(r[name]), narrow ? W : labels - 10)));
    if (i + 1 < t.rows.length)
      svg.append(drawn('line', {x1: x(b), x2: x(b), y1: top + bar, y2: top + row, stroke: 'var(--dim)', 'stroke-dasharray': '2 2'}));
    const mark = drawn('rect', {x: Math.min(x(a), x(b)), y: top, width: Math.max(1.5, Math.abs(x(b) - x(a))), height: bar, fill: colour(r), rx: 2});
    svg.append(mark, drawn('text', {x: Math.max(x(a), x(b)) + 6, y: top + 13, 'font-size': 12, fill: 'var(--dim)'}, said(r)));
    return mark;
  });
  return make('figure', {}, svg, spokenMarks(svg, marks, t.rows.map(r => whole(r) ?
      `${cellText(r[name])}: ${cellText(r[to])}` :
      `${cellText(r[name])}: ${said(r)}, from ${cellText(r[from])} to ${cellText(r[to])}`)));
}
if (data.waterfall && data.waterfall.rows.length) {
  const swatch = (colour, text) => make('span', {}, make('i', {style: `background:${colour}`}), text);
  put('waterfall', fittedDrawing(w => waterfallDrawing(data.waterfall, w)),
      make('div', {class: 'legend'}, swatch('var(--good)', 'time won'), swatch('var(--bad)', 'time lost')),
      make('details', {}, make('summary', {}, 'As a table'), tableElement(data.waterfall)));
} else {
  byId('waterfall').hidden = true;
}
