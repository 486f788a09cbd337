/** Entries of one log, or what a search finds in all of them. */
import { List, choices, count, h, number, offset, pause, quiet, trouble } from "./dom.js";
import { scopeOf, statusOf, summary } from "./data.js";
import { some } from "./tree.js";

export function entries(app) {
	let found = null;
	let log = app.at.log, scan = 0, wide = false, narrow = false;
	const said = quiet({ role: "status" });
	const kind = h("select", { label: "Kind", onchange: () => update() }, [["", "All kinds"], ...app.page.kinds.map((each) => [`${each}.`, each])].map(([value, word]) => h("option", { value }, word)));
	const where = h("select", { label: "Log", onchange: () => { wide = false; narrow = where.value !== "all"; if (narrow) { log = ""; app.select(where.value, 0); } else update(); } });
	const list = new List({ label: "Entries", get none() { return app.store.loaded ? "No entry matches." : "Reading …"; }, count: () => (found ? found.length : app.store.logs.get(log)?.lines ?? 0), draw, choose: (i) => { const [on, seq] = place(i); app.select(on, seq); } });
	const place = (i) => (found ? found[i] : [log, i]);
	const fill = () => {
		const ids = [...app.store.logs.keys()], first = !where.options.length;
		choices(where, [["all", `All ${count(ids.length, "log")}`], ...ids.map((id) => [id, app.nameOf(id)])]);
		if (first) where.value = log;
	};
	function draw(i) {
		const [on, seq] = place(i), e = app.store.entry(on, seq);
		if (!e) return h("div.entry", quiet("…"));
		const bad = trouble(statusOf(e)), at = app.store.at(e);
		return h("div", { class: `entry ${e.kind.split(".")[0]}`, "data-seq": seq },
			h("span.seq", found && where.value === "all" ? `${app.nameOf(on, true)} ${seq}` : String(seq)), h("span.at", offset(at)),
			h("span.kind", e.kind), h("span.what", bad, " ", summary(e, bad)), h("span.call", e.call ?? ""));
	}
	/** Read what passes, a slice at a time. */
	async function update() {
		fill();
		const mine = ++scan, f = app.filter, chosen = some(f);
		// The filters above are for the run: they look in all logs, unless one is chosen here.
		if (chosen && !narrow && where.value !== "all") { wide = true; where.value = "all"; }
		else if (!chosen) { if (wide) where.value = log; wide = narrow = false; }
		const all = where.value === "all";
		if (!chosen && !kind.value && !all) { found = null; said.textContent = count(list.how.count(), "entry", "entries"); list.draw(); return; }
		const hits = (found = []), text = f.text.toLowerCase(), inside = JSON.stringify(text).slice(1, -1), holds = (line) => line.includes(text) || line.includes(inside);
		let seen = 0, shown = performance.now();
		for (const [id, each] of app.store.logs) {
			if (!all && id !== log) continue;
			const tools = new Map(), parse = f.status || f.tool || f.agent || kind.value;
			let until = performance.now() + 12;
			for (let seq = 0; seq < each.lines; seq++) {
				const has = !text || holds(each.text(seq).toLowerCase());
				if ((has || f.tool) && (!parse || passes(id, each.entry(seq), tools)) && has) hits.push([id, seq]);
				seen++;
				if (performance.now() < until) continue;
				await pause();
				if (mine !== scan) return;
				until = performance.now() + 12;
				if (until - shown > 300) { shown = until; said.textContent = `${number(hits.length)} found, ${number(seen)} searched …`; list.draw(); }
			}
		}
		said.textContent = `${number(hits.length)} of ${count(seen, "entry", "entries")}`;
		list.active = hits.findIndex(([id, seq]) => id === app.at.log && seq === app.at.seq);
		list.draw();

		/** `tools` by call, as far as read. */
		function passes(id, e, tools) {
			const status = statusOf(e).replace(/^ok$/, "completed").replace(/^error$/, "failed");
			if (e.kind === "tool.called") tools.set(e.call, e.data.tool);
			if (!e.kind.startsWith(kind.value)) return false;
			if (f.status && (f.status === "not completed" ? !status || status === "completed" : f.status !== status)) return false;
			const node = f.agent && app.nodeOf(id, scopeOf(e));
			return (!f.agent || (node?.agent || node?.program) === f.agent) && (!f.tool || tools.get(e.call) === f.tool);
		}
	}
	const view = {
		element: h("section.view.entriesview", { label: "Entries" }, h("div.bar", where, kind, said), list.element), list, update, filters: true,
		place() {
			fill();
			if (app.at.log !== undefined && app.at.log !== log && where.value !== "all") { log = app.at.log; where.value = log; update(); }
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
