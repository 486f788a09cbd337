/** Lanes: a line of time for each run or conversation; what it did, what it waited for, where its limit lies. */
import { List, badge, duration, h, short, tone } from "./dom.js";
import { passes, some } from "./tree.js";

const WAITS = new Set(["child", "timer", "ask"]);

/** Lay bars that overlap one below the other, at most four deep. */
function tracksOf(lane) {
	const ends = [0, 0, 0, 0].map(() => -Infinity);
	return lane.bars.map((bar) => {
		const free = ends.findIndex((end) => end <= bar[4]), track = free < 0 ? 3 : free;
		ends[track] = Math.max(ends[track], bar[5] ?? lane.end_us);
		return track;
	});
}

export function lanes(app) {
	const all = () => app.page.lanes;
	let shown = [];
	let from = 0, to, end, whole = true;
	const tracks = new WeakMap();
	let paths;
	const axis = h("svg.axis", { hush: true });
	const list = new List({
		label: "Lanes", none: "No run matches.", count: () => shown.length, draw,
		choose: (i, entered) => entered && app.choose(app.nodeOf(shown[i].log, shown[i].scope) ?? shown[i]),
		keys: (e, i) => {
			if (/[+=]/.test(e.key)) zoom(0.5);
			else if (e.key === "-") zoom(2);
			else if (e.key === "0") fit();
			else if (e.shiftKey && /Left|Right/.test(e.key)) pan(e.key === "ArrowLeft" ? -0.2 : 0.2);
			else if (/Left|Right/.test(e.key) && shown[i]) {
				const lane = shown[i], bars = lane.bars, at = bars.findIndex((bar) => lane.log === app.at.log && (bar[0] === app.at.seq || bar[1] === app.at.seq));
				const next = bars[Math.max(0, Math.min(bars.length - 1, at + (e.key === "ArrowRight" ? 1 : -1)))];
				if (next) app.select(lane.log, next[0]);
			} else return false;
			return true;
		},
	});
	const tool = (sign, label, act) => h("button", { title: label, label, onclick: act }, sign);
	const span = h("span.quiet.span");
	const bar = h("div.bar", tool("−", "Zoom out (-)", () => zoom(2)), tool("+", "Zoom in (+)", () => zoom(0.5)), tool("Whole run", "Show the whole run (0)", () => fit()), span,
		h("span.legend", [["model", "model"], ["tool", "tool"], ["wait", "waiting"], ["bad", "failed"], ["critical", "critical path"], ["limit", "limit"]].map(([kind, word]) => h("span", h("i", { class: `key-${kind}`, hush: true }), word))));

	const clamp = () => { const size = Math.min(to - from, end * 1.02); from = Math.max(-end * 0.01, Math.min(from, end * 1.01 - size)); to = from + size; };
	function zoom(by, at = (from + to) / 2) { whole = false; const size = Math.max(10, (to - from) * by); from = at - (size * (at - from)) / (to - from); to = from + size; clamp(); paint(); }
	function pan(part) { whole = false; const size = to - from; from += part * size; to = from + size; clamp(); paint(); }
	function fit() { whole = true; filter(); paint(); }
	function filter() {
		shown = all().filter((lane) => !some(app.filter) || passes(app.nodeOf(lane.log, lane.scope) ?? { name: lane.label, status: lane.status }, app.filter));
		paths = new Map();
		for (const [log, , , start, over] of app.page.critical) {
			const path = paths.get(log) ?? [], last = path.at(-1);
			if (last && start - last[1] < 2) last[1] = over; else path.push([start, over]);
			paths.set(log, path);
		}
		end = all().reduce((most, lane) => Math.max(most, lane.end_us ?? 0), 1);
		if (whole) { from = 0; to = end; }
		for (const lane of shown) if (!tracks.has(lane)) tracks.set(lane, tracksOf(lane));
		list.active = shown.findIndex((lane) => lane.log === app.at.log && (!lane.scope || lane.scope === app.node?.scope));
	}
	const room = () => Math.max(60, axis.getBoundingClientRect().width);
	const x = (us) => ((us - from) / (to - from)) * room();

	function draw(i) {
		const lane = shown[i], width = room(), row = (list.row ?? 44) - (matchMedia("(max-width: 60rem)").matches ? 32 : 12), laid = tracks.get(lane) ?? [], deep = Math.max(1, ...laid.map((n) => n + 1));
		const high = (row - 6) / deep, last = [-9, -9, -9, -9], marks = [];
		marks.push(h("rect.life", { x: x(lane.start_us), y: 2, width: Math.max(1, x(lane.end_us) - x(lane.start_us)), height: row - 6 }));
		lane.bars.forEach((bar, n) => {
			const [seq, , kind, name, start, over, status] = bar, till = over ?? lane.end_us;
			if (till < from || start > to) return;
			const left = Math.max(-2, x(start)), right = Math.min(width + 2, x(till)), bad = tone(status) === "bad";
			if (right < last[laid[n]] + 1 && !bad) return;
			last[laid[n]] = Math.max(right, left + 1);
			const on = lane.log === app.at.log && (seq === app.at.seq || bar[1] === app.at.seq);
			marks.push(h("rect", { class: `mark ${WAITS.has(kind) ? "wait" : kind} ${bad ? "bad" : ""} ${on ? "on" : ""}`, "data-seq": seq, x: left, y: 2 + laid[n] * high, width: Math.max(2, right - left), height: Math.max(2, high - 1), rx: 2,
				onclick: (e) => { e.stopPropagation(); app.select(lane.log, seq); } },
			h("title", `${short(name, 80)}: ${status}, ${duration(till - start)}${WAITS.has(kind) ? " (waiting)" : ""}`)));
		});
		for (const [start, over] of paths.get(lane.log) ?? []) if (over >= from && start <= to) marks.push(h("rect.critical", { x: Math.max(0, x(start)), y: row - 3, width: Math.max(1.5, Math.min(width, x(over)) - Math.max(0, x(start))), height: 4 }));
		const limit = lane.limit_us;
		if (limit !== null && limit !== undefined && limit >= from && limit <= to) marks.push(h("g.limit", h("line", { x1: x(limit), x2: x(limit), y1: 0, y2: row }), h("title", `Limit: ${duration(limit - lane.start_us)}`)));
		const name = lane.scope ? short(lane.label, 100) : app.nameOf(lane.log), took = duration(lane.took_us), within = limit ? ` of ${duration(limit - lane.start_us)}` : "";
		return h("div.lane",
			h("span.who", badge(lane.status, false, lane.standing), h("span.name", { title: name }, name), h("span.quiet.took", took, h("span.within", within))),
			h("svg.marks", { hush: true, height: row, viewBox: `0 0 ${width} ${row}`, preserveAspectRatio: "none" }, marks));
	}
	function paint() {
		const width = room(), least = ((to - from) / width) * 90, power = 10 ** Math.floor(Math.log10(least)), step = power * [1, 2, 5, 10].find((n) => n * power >= least);
		const ticks = [];
		for (let at = Math.ceil(Math.max(0, from) / step) * step; at <= to; at += step) ticks.push(h("g", h("line", { x1: x(at), x2: x(at), y1: 18, y2: 24 }), x(at) < width - 40 ? h("text", { x: x(at) + 3, y: 15 }, at ? duration(at) : "0") : null));
		axis.replaceChildren(...ticks);
		for (const [name, value] of [["viewBox", `0 0 ${width} 24`], ["preserveAspectRatio", "none"]]) axis.setAttribute(name, value);
		span.textContent = `${duration(to - from)} of ${duration(end)}`;
		list.draw();
	}
	list.element.addEventListener("wheel", (e) => {
		if (!e.ctrlKey) return;
		e.preventDefault();
		const box = axis.getBoundingClientRect();
		zoom(e.deltaY < 0 ? 0.8 : 1.25, from + ((e.clientX - box.left) / box.width) * (to - from));
	}, { passive: false });
	new ResizeObserver(() => { if (axis.isConnected) paint(); }).observe(axis);
	filter();
	return {
		element: h("section.view.lanesview", { label: "Lanes" }, bar, h("div.axisrow", axis), list.element), list, filters: true,
		update() { filter(); paint(); },
		place() { filter(); paint(); if (list.active >= 0) list.show(list.active, true); },
	};
}
