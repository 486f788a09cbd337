// What overlaps, is cut, or lies beyond the window; as text, at most ten of each page.
const bad = [], boxes = [];
for (const e of document.querySelectorAll('#app *')) {
  const r = e.getBoundingClientRect(), s = getComputedStyle(e);
  if (!r.width || !e.checkVisibility({ contentVisibilityAuto: true }) || s.visibility === 'hidden' || e.closest('.unseen, .skip, dialog, .panel, .ticks, svg')) continue;
  const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  if (!own || e.closest('svg, option')) continue;
  if (r.right > innerWidth + 1 && !e.closest('.drawer, .list')) bad.push('beyond: ' + e.textContent.slice(0, 40));
  if (e.matches('.took, .num') && e.scrollWidth > e.clientWidth + 1) bad.push('cut: ' + e.textContent);
  const ends = (n) => n && (getComputedStyle(n).textOverflow === 'ellipsis');
  if (e.scrollWidth > e.clientWidth + 1 && s.overflowX === 'hidden' && !ends(e)) bad.push('cut: ' + e.className + ' ' + e.textContent.slice(0, 40));
  const list = e.closest('.list');
  const frame = list?.getBoundingClientRect() ?? { top: 0, bottom: 1e9 };
  const top = Math.max(r.top, frame.top), bottom = Math.min(r.bottom, frame.bottom);
  const range = document.createRange(); range.selectNodeContents(e);
  let hidden = e, clip = { left: -1e9, right: 1e9, top, bottom };
  for (; hidden && hidden !== document.body; hidden = hidden.parentElement) if (getComputedStyle(hidden).overflowX !== 'visible') { const b = hidden.getBoundingClientRect(); clip = { left: Math.max(clip.left, b.left), right: Math.min(clip.right, b.right), top: Math.max(clip.top, b.top), bottom: Math.min(clip.bottom, b.bottom) }; }
  for (const n of e.childNodes) if (n.nodeType === 3 && n.data.trim()) {
    range.selectNodeContents(n);
    for (const t of range.getClientRects()) {
      const box = { l: Math.max(t.left, clip.left), r: Math.min(t.right, clip.right), t: Math.max(t.top, clip.top), b: Math.min(t.bottom, clip.bottom), e };
      if (box.r - box.l > 2 && box.b - box.t > 4) boxes.push(box);
    }
  }
}
boxes.sort((a, b) => a.t - b.t);
for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length && boxes[j].t < boxes[i].b - 4; j++) {
  const a = boxes[i], b = boxes[j], fixed = (x) => Boolean(x.e.closest('.drawer'));
  if (innerWidth <= 1180 && fixed(a) !== fixed(b)) continue;
  if (a.e !== b.e && Math.min(a.r, b.r) - Math.max(a.l, b.l) > 2 && Math.min(a.b, b.b) - Math.max(a.t, b.t) > 4) bad.push('over: ' + a.e.textContent.slice(0, 30) + ' | ' + b.e.textContent.slice(0, 30));
}
if (document.documentElement.scrollWidth > innerWidth + 1) bad.push('the page scrolls sideways');
return bad.slice(0, 10);
