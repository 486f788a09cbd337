/** The start page of `refold view`: the runs of a folder. */
import { List, badge, count, h, known, millis, money, number, offer, short, tone } from "./dom.js";

const COLUMNS = {
	run: ["Run", (run) => [badge(run.status, run.status !== "completed", run.standing), h("strong", short(run.agent || run.program || "?", 80)), h("span.brief", short(run.path))]],
	calls: ["Subagents", (run) => [run.subagents ? number(run.subagents) : "", run.failed ? h("span.bad", ` (${number(run.failed)} failed)`) : ""]],
	via: ["Models", (run) => short((run.models ?? []).join(", "), 80)],
	tokens: ["Tokens", (run) => run.tokens ?? ""],
	cost: ["Cost", (run) => known(run.cost_usd_micros, money)],
	when: ["Started (UTC)", ({ started_us: us }) => (us < 8e18 && us ? new Date(us / 1000).toISOString().slice(0, 16).replace("T", " ") : "")],
	time: ["Time", (run) => known(run.duration_ms, millis)],
};

export function runs(query) {
	let all = [], rows = all;
	const text = h("input", { type: "search", placeholder: "Search runs  ( / )", label: "Search runs", oninput: () => update() });
	const status = h("select", { label: "Status", onchange: () => update() });
	const said = h("span.quiet", { role: "status" }, "Reading …");
	const go = (run) => query("", { log: run.id });
	const draw = (i) => h("div", { class: `runrow ${tone(rows[i].status)}` }, Object.entries(COLUMNS).map(([name, [, of]]) => h("span", { class: name }, of(rows[i]))));
	const list = new List({ label: "Runs", none: "No run matches.", count: () => rows.length, draw, choose: (i, entered) => { if (entered && rows[i]) location.assign(go(rows[i])); } });
	const head = h("div.row.head.runrow", { hush: true }, Object.entries(COLUMNS).map(([name, [word]]) => h("span", { class: name }, word)));
	function update() {
		const needle = text.value.toLowerCase();
		rows = all.filter((run) => (!status.value || run.status === status.value || (status.value === "with failed" && run.failed)) && (!needle || JSON.stringify([run.path, run.agent, run.program, run.models, run.standing || run.status]).toLowerCase().includes(needle)));
		said.textContent = `${rows.length === all.length ? "" : `${rows.length} of `}${count(all.length, "run")}`;
		list.draw();
	}
	async function refresh() {
		if (document.hidden) return;
		try { all = (await (await fetch(query("runs"))).json()).runs ?? []; } catch { said.textContent = "The server does not answer."; return; }
		offer(status, "Any status", [...all.map((run) => run.status), "with failed"]);
		update();
	}
	refresh();
	setInterval(refresh, 5000);
	addEventListener("keydown", (e) => { if (e.key === "/" && !/INPUT|SELECT/.test(e.target.tagName)) { e.preventDefault(); text.focus(); } });
	return h("div.app.start", h("header.top", h("h1", "Runs"), h("div.filters", { role: "search" }, text, status, said)), h("main.main", h("section.view.treeview", { label: "Runs" }, head, list.element)));
}
