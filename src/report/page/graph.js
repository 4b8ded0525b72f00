// The drawings: zoom, drag, an overview beside each, hover that shows a node and what it became on the other side.
const tip = byId('tip');
function showTip(e, text) {
  const [first, ...rest] = text.split('\n');
  tip.replaceChildren(make('b', {}, first), rest.length ? '\n' + rest.join('\n') : '');
  tip.hidden = false;
  const r = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(e.clientX + 16, innerWidth - r.width - 12))}px`;
  tip.style.top = `${Math.max(8, e.clientY + 18 + r.height > innerHeight ? e.clientY - r.height - 12 : e.clientY + 18)}px`;
}

/// White over yellow to red by the share of the slowest node's time.
const heat = f => `hsl(${52 - 44 * f} ${85}% ${94 - 42 * f}%)`;
const limiterFill = {compute: '#a9c9e8', memory: '#cfbfe8', latency: '#f6c9ad', launch: '#d8dbe0'};
const views = {};

function viewOf(side) {
  const box = document.querySelector(`.graph[data-side="${side}"]`), svg = box.querySelector('svg'),
        figure = box.closest('figure');
  if (!svg) return figure.hidden = true, null;
  const full = svg.viewBox.baseVal, view = {side, box, svg, scale: 1, nodes: [], byName: new Map(), groups: new Map()};
  const steps = data[side] && data[side].steps, us = new Map();
  if (steps)
    for (const r of steps.rows)
      us.set(
          cellText(r[column(steps, 'name')]),
          (us.get(cellText(r[column(steps, 'name')])) || 0) + cellValue(r[column(steps, 'self_us')]));
  const most = Math.max(1e-9, ...us.values()), limiter = new Map();
  if (steps) for (const r of steps.rows) limiter.set(cellText(r[column(steps, 'name')]), cellText(r[column(steps, 'limiter')]));
  for (const g of svg.querySelectorAll('g.node')) {
    const a = g.querySelector('a'),
          text = a ? (a.getAttributeNS('http://www.w3.org/1999/xlink', 'title') || '').replace(/\u00a0/g, ' ') : '';
    if (a) a.removeAttributeNS('http://www.w3.org/1999/xlink', 'title');
    g.querySelector('title')?.remove();
    const shape = g.querySelector('path, polygon, ellipse'), b = g.getBBox(), name = text.split('\n')[0];
    const node = {
      g,
      text,
      name,
      shape,
      fill: shape.getAttribute('fill'),
      box: b,
      group: [...g.classList].find(c => /^g\d+$/.test(c)),
      us: us.get(name) || 0
    };
    node.limiter = limiter.get(name) || '';
    node.heat = us.has(name) ? heat(Math.sqrt(node.us / most)) : '#ffffff';
    view.nodes.push(node);
    if (!view.byName.has(name)) view.byName.set(name, node);
    if (node.group) view.groups.set(node.group, [...(view.groups.get(node.group) || []), node]);
    g.addEventListener('mouseenter', e => { showTip(e, text); pick(node); });
    g.addEventListener('mousemove', e => showTip(e, text));
    g.addEventListener('mouseleave', () => { tip.hidden = true; pick(null); });
  }
  for (const t of svg.querySelectorAll('g.edge title, g.graph > title')) t.remove();
  figure.querySelector('figcaption').textContent =
      `${sideTitle[side]}: ${view.nodes.filter(n => n.shape.tagName !== 'ellipse').length} nodes`;

  // A small graph needs no tall window: as opened, with a scroll bar.
  figure.style.setProperty('--tall', `${Math.max(160, Math.ceil(1.15 * full.height) + 24)}px`);

  const move = view.origin = svg.querySelector('g.graph').transform.baseVal.consolidate().matrix;
  view.zoom = (scale, keep = [0.5, 0.5]) => {
    const cx = (box.scrollLeft + keep[0] * box.clientWidth) / view.scale,
          cy = (box.scrollTop + keep[1] * box.clientHeight) / view.scale;
    view.scale = Math.min(4, Math.max(0.05, scale));
    svg.setAttribute('width', full.width * view.scale);
    svg.setAttribute('height', full.height * view.scale);
    box.scrollTo(cx * view.scale - keep[0] * box.clientWidth, cy * view.scale - keep[1] * box.clientHeight);
    view.paint();
  };
  view.fit = () => view.zoom(Math.min(box.clientWidth / full.width, box.clientHeight / full.height));
  view.centre = (node, behavior = 'smooth') => box.scrollTo({
    left: (node.box.x + node.box.width / 2 + move.e) * view.scale - box.clientWidth / 2,
    top: (node.box.y + node.box.height / 2 + move.f) * view.scale - box.clientHeight / 2,
    behavior
  });

  // The overview: every node a dot of its colour, and the part in sight.
  const canvas = figure.querySelector('canvas'), pen = canvas.getContext('2d');
  view.paint = () => {
    const ratio = devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
    if (!w || !h) return;
    canvas.width = w * ratio; canvas.height = h * ratio;
    const k = view.k = Math.min((w - 8) / full.width, (h - 8) / full.height), x0 = view.x0 = (w - full.width * k) / 2;
    pen.scale(ratio, ratio);
    for (const n of view.nodes) {
      pen.fillStyle = n.shape.getAttribute('fill') === '#ffffff' ? '#b9bfc7' : n.shape.getAttribute('fill');
      pen.fillRect(
          x0 + (n.box.x + move.e) * k, 4 + (n.box.y + move.f) * k, Math.max(2, n.box.width * k), Math.max(1.5, n.box.height * k));
    }
    pen.strokeStyle = getComputedStyle(document.body).color;
    pen.lineWidth = 1.5;
    const s = k / view.scale, shown = Math.min(full.width * view.scale, box.clientWidth);
    pen.strokeRect(x0 + box.scrollLeft * s, 4 + box.scrollTop * s, shown * s, Math.min(full.height * k, box.clientHeight * s));
  };
  const jump = e => {
    const r = canvas.getBoundingClientRect();
    box.scrollTo(
        (e.clientX - r.left - view.x0) / view.k * view.scale - box.clientWidth / 2,
        (e.clientY - r.top - 4) / view.k * view.scale - box.clientHeight / 2);
  };
  canvas.addEventListener('pointerdown', e => { canvas.setPointerCapture(e.pointerId); jump(e); });
  canvas.addEventListener('pointermove', e => { if (e.buttons) jump(e); });

  box.addEventListener('scroll', () => requestAnimationFrame(view.paint));
  box.addEventListener('wheel', e => {
    if (!e.ctrlKey && !e.metaKey) return;   // a plain wheel scrolls
    e.preventDefault();
    const r = box.getBoundingClientRect();
    view.zoom(view.scale * Math.exp(-e.deltaY * 0.002), [(e.clientX - r.left) / r.width, (e.clientY - r.top) / r.height]);
  }, {passive: false});
  let from = null;
  box.addEventListener('pointerdown', e => { if (e.button === 0) from = [e.clientX, e.clientY], box.classList.add('dragged'); });
  addEventListener('pointerup', () => { from = null; box.classList.remove('dragged'); });
  addEventListener('pointermove', e => {
    if (!from) return;
    box.scrollBy(from[0] - e.clientX, from[1] - e.clientY);
    from = [e.clientX, e.clientY];
  });
  return view;
}

/// The node, and on both sides all that became, or is, one fused operator with it.
function pick(node) {
  for (const v of Object.values(views)) {
    for (const n of v.nodes) n.g.classList.remove('picked');
    const group = node && node.group ? v.groups.get(node.group) : null;
    v.box.classList.toggle('picked', Boolean(group));
    if (group) for (const n of group) n.g.classList.add('picked');
  }
}

for (const side of ['before', 'after']) {
  const v = viewOf(side);
  if (v) views[side] = v;
}
const allViews = Object.values(views);
byId('drawing-note').textContent = data.drawing_note;
if (!allViews.length) {
  byId('graphs').querySelector('.toolbar').hidden = true;
  byId('graphs').hidden = !data.drawing_note;
} else {
  const recolour = by => {
    for (const v of allViews) {
      for (const n of v.nodes) {
        if (n.shape.tagName === 'ellipse') continue;
        n.shape.setAttribute('fill', by === 'time' ? n.heat : by === 'limiter' ? limiterFill[n.limiter] || '#ffffff' : n.fill);
        n.label?.remove();
        n.label = null;
        if (by !== 'limiter' || !n.limiter) continue;
        const {x, y, width} = n.box;   // a colour alone says nothing to many readers
        n.label = drawn('text', {x: x + width / 2, y: y - 1, 'text-anchor': 'middle', 'font-size': 7, 'font-family': 'sans-serif', fill: 'var(--dim)'}, n.limiter);
        n.g.append(n.label);
      }
      v.paint();
    }
  };
  // A wide drawing may begin anywhere across its width.
  for (const v of allViews) {
    v.zoom(1.15, [0.5, 0]);
    if (v.nodes.length) v.centre(v.nodes[0], 'instant');
  }
  const colours = [['groups', 'fused groups'], ['time', 'time']];
  if (allViews.some(v => v.nodes.some(n => n.limiter))) colours.push(['limiter', 'limiter']);
  tabsFor(document.querySelector('[data-colours]'), colours, recolour, 'groups');
  for (const [title, act] of [
           ['−', v => v.zoom(v.scale / 1.3)], ['+', v => v.zoom(v.scale * 1.3)], ['fit', v => v.fit()],
           ['1:1', v => v.zoom(1.15)]]) {
    const b = make('button', {type: 'button'}, title);
    b.addEventListener('click', () => allViews.forEach(act));
    document.querySelector('[data-zoom]').append(b);
  }
  document.querySelector('#graphs input').addEventListener('input', e => {
    const wanted = e.target.value.trim().toLowerCase();
    for (const v of allViews) {
      const found = v.nodes.filter(n => wanted && n.text.toLowerCase().includes(wanted));
      for (const n of v.nodes) n.g.classList.toggle('found', found.includes(n));
      if (found.length) v.centre(found[0]);
    }
  });
  addEventListener('resize', () => allViews.forEach(v => v.paint()));
  toNode = (side, name) => {
    const v = views[side], node = v && v.byName.get(name);
    if (!node) return;
    byId('graphs').scrollIntoView();
    for (const n of v.nodes) n.g.classList.toggle('found', n === node);
    v.centre(node);
  };
}

for (const s of document.querySelectorAll('section[data-nav]'))
  if (!s.hidden) byId('nav').append(make('a', {href: '#' + s.id}, s.dataset.nav));
