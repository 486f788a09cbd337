/** The start page of `refold view`: the runs of a folder. */
import { List, badge, count, duration, h, money, number, short, tone } from "./dom.js";

export function runs(query) {
	let all = [], rows = all;
	const text = h("input", { type: "search", placeholder: "Search runs  ( / )", label: "Search runs", oninput: () => update() });
	const status = h("select", { label: "Status", onchange: () => update() });
	const program = h("select", { label: "Program", onchange: () => update() });
	const said = h("span.quiet", { role: "status" }, "Reading …");
	const go = (run) => query("", { log: run.id });
	const list = new List({ label: "Runs", count: () => rows.length, draw, choose: (i, entered) => { if (entered && rows[i]) location.assign(go(rows[i])); } });
	const head = h("div.row.head.runrow", { hush: true }, ["Run", "Subagents", "Models", "Tokens", "Cost", "Started (UTC)", "Time"].map((word, i) => h("span", { class: ["run", "calls", "via", "tokens", "cost", "when", "time"][i] }, word)));
	function draw(i) {
		const run = rows[i], started = run.started_us ? new Date(run.started_us / 1000) : null;
		return h("div", { class: `runrow ${tone(run.status)}` },
			h("span.run", badge(run.status, run.status !== "completed"), h("strong", short(run.agent || run.program || "?", 80)), h("span.brief", short(run.path))),
			h("span.calls", run.subagents ? number(run.subagents) : "", run.failed ? h("span.bad", ` (${number(run.failed)} failed)`) : null), h("span.via", short((run.models ?? []).join(", "), 80)),
			h("span.tokens", run.input_tokens || run.output_tokens ? number(run.input_tokens + run.output_tokens) : ""), h("span.cost", typeof run.cost_usd_micros === "number" ? money(run.cost_usd_micros) : ""),
			h("span.when", started && !Number.isNaN(+started) ? started.toISOString().slice(0, 16).replace("T", " ") : ""), h("span.time", typeof run.duration_ms === "number" ? duration(run.duration_ms * 1000) : ""));
	}
	const words = (pick, any, found) => { const was = pick.value, names = [...new Set(found.filter(Boolean).map(String))].sort(); pick.replaceChildren(h("option", { value: "" }, any), ...names.slice(0, 500).map((name) => h("option", { value: name }, short(name, 60)))); pick.value = names.includes(was) ? was : ""; };
	function update() {
		const needle = text.value.toLowerCase();
		rows = all.filter((run) => (!status.value || run.status === status.value || (status.value === "with failed" && run.failed)) && (!program.value || run.program === program.value) && (!needle || JSON.stringify([run.path, run.agent, run.program, run.models, run.status]).toLowerCase().includes(needle)));
		said.textContent = `${rows.length === all.length ? "" : `${rows.length} of `}${count(all.length, "run")}`;
		list.draw();
	}
	async function refresh() {
		if (document.hidden) return;
		try { all = (await (await fetch(query("runs"))).json()).runs ?? []; } catch { said.textContent = "The server does not answer: it was stopped, perhaps."; return; }
		words(status, "Any status", [...all.map((run) => run.status), "with failed"]);
		words(program, "Any program", all.map((run) => run.program));
		update();
	}
	refresh();
	setInterval(refresh, 5000);
	addEventListener("keydown", (e) => { if (e.key === "/" && !/INPUT|SELECT/.test(e.target.tagName)) { e.preventDefault(); text.focus(); } });
	return h("div.app.start", h("header.top", h("h1", "Runs"), h("div.filters", { role: "search" }, text, status, program, said)), h("main.main", h("section.view.treeview", { label: "Runs" }, head, list.element)));
}
