/** Entries of one log, or what a search finds in all of them. */
import { List, count, h, number, offset, pause, trouble } from "./dom.js";
import { statusOf, summary } from "./data.js";

export function entries(app) {
	let found = null;
	let log = app.at.log, scan = 0;
	const said = h("span.quiet", { role: "status" });
	const kind = h("select", { label: "Kind", onchange: () => update() }, h("option", { value: "" }, "All kinds"), ["run", "tool", "model", "child", "input", "limit", "effect", "session", "timer", "clock", "value", "note"].map((each) => h("option", { value: `${each}.` }, each)));
	const where = h("select", { label: "Log", onchange: () => { if (where.value === "all") update(); else app.select(Number(where.value), 0); } });
	const list = new List({ label: "Entries", count: () => (found ? found.length : app.store.logs.get(log)?.lines ?? 0), draw, choose: (i) => { const [on, seq] = place(i); app.select(on, seq); } });
	const place = (i) => (found ? found[i] : [log, i]);
	const fill = () => {
		const ids = [...app.store.logs.keys()];
		if (where.options.length !== ids.length + 1) where.replaceChildren(h("option", { value: "all" }, `All ${count(ids.length, "log")}`), ...ids.slice(0, 5000).map((id) => h("option", { value: String(id) }, app.nameOf(id)))), where.value = String(log);
	};
	function draw(i) {
		const [on, seq] = place(i), e = app.store.entry(on, seq);
		if (!e) return h("div.entry", h("span.quiet", "…"));
		const status = statusOf(e), at = app.store.at(e);
		return h("div", { class: `entry ${e.kind.split(".")[0]}`, "data-seq": seq },
			h("span.seq", found && where.value === "all" ? `${app.nameOf(on, true)} ${seq}` : String(seq)), h("span.at", offset(at)),
			h("span.kind", e.kind), h("span.what", trouble(status), " ", summary(e)), h("span.call", e.call ?? ""));
	}
	/** Read what passes, a slice at a time. */
	async function update() {
		fill();
		const mine = ++scan, f = app.filter, all = where.value === "all";
		if (!f.text && !f.status && !f.tool && !f.agent && !kind.value && !all) { found = null; said.textContent = count(list.how.count(), "entry", "entries"); list.draw(); return; }
		const hits = (found = []), text = f.text.toLowerCase(), inside = JSON.stringify(text).slice(1, -1), holds = (line) => line.includes(text) || line.includes(inside);
		let seen = 0, shown = performance.now();
		for (const [id, each] of app.store.logs) {
			if (!all && id !== log) continue;
			if (f.agent) { const node = app.nodeOf(id); if ((node?.agent || node?.program) !== f.agent) continue; }
			const tools = new Map(), parse = f.status || f.tool || kind.value;
			let until = performance.now() + 12;
			for (let seq = 0; seq < each.lines; seq++) {
				const has = !text || holds(each.text(seq).toLowerCase());
				if ((has || f.tool) && (!parse || passes(each.entry(seq), tools)) && has) hits.push([id, seq]);
				seen++;
				if (performance.now() < until) continue;
				await pause();
				if (mine !== scan) return;
				until = performance.now() + 12;
				if (until - shown > 300) { shown = until; said.textContent = `${number(hits.length)} found, ${number(seen)} looked at …`; list.draw(); }
			}
		}
		said.textContent = `${number(hits.length)} of ${count(seen, "entry", "entries")}`;
		list.active = hits.findIndex(([id, seq]) => id === app.at.log && seq === app.at.seq);
		list.draw();

		/** `tools` by call, as far as read. */
		function passes(e, tools) {
			const status = statusOf(e).replace(/^ok$/, "completed").replace(/^error$/, "failed");
			if (e.kind === "tool.called") tools.set(e.call, e.data.tool);
			if (!e.kind.startsWith(kind.value)) return false;
			if (f.status && (f.status === "not completed" ? !status || status === "completed" : f.status !== status)) return false;
			return !f.tool || tools.get(e.call) === f.tool;
		}
	}
	const view = {
		element: h("section.view.entriesview", { label: "Entries" }, h("div.bar", where, kind, said), list.element), list, update,
		place() {
			fill();
			if (app.at.log !== undefined && app.at.log !== log && where.value !== "all") { log = app.at.log; where.value = String(log); update(); }
			else if (where.value === "") where.value = String(log);
			const i = found ? found.findIndex((hit) => hit[0] === app.at.log && hit[1] === app.at.seq) : app.at.log === log ? app.at.seq ?? -1 : -1;
			if (i >= 0) list.show(i, true); else list.draw();
			if (!found) said.textContent = count(list.how.count(), "entry", "entries");
		},
		/** Look in all logs: what the search box does on Enter. */
		everywhere() { fill(); where.value = "all"; update(); },
		grown() { if (found) update(); else view.place(); },
	};
	return view;
}
