/** The list of runs: in the user's words, a question first; two of them can be compared. */
import { List, h } from "./dom.js";
import { isBad } from "./model.js";
import { Copy, Searched, Sign, Status, highlighted } from "./parts.js";
import { Crumbs } from "./run.js";
import { set, state } from "./store.js";
import { count, duration, money, number, short, words } from "./words.js";

/** Who was busy when, as small as a word. @param {{ lanes: any[] }} props */
function Spark({ lanes }) {
	if (!lanes?.length) return h("span.spark");
	const span = Math.max(1, ...lanes.map(([, to]) => to));
	const height = Math.min(5, 30 / lanes.length);
	return h(
		"svg.spark",
		{ viewBox: "0 0 120 30", hush: "true" },
		lanes.map(([from, to, status], i) =>
			h("rect", {
				key: i,
				x: (from / span) * 120,
				y: i * height,
				width: Math.max(1.5, ((to - from) / span) * 120),
				height: Math.max(0.8, height - 0.8),
				class: isBad(status) ? "bad" : "model",
			}),
		),
	);
}

/** @param {any} run */
const isFailed = (run) => isBad(run.status) || run.failed > 0 || run.tools_failed > 0;

/** How many subagents failed; if none did, how many calls. @param {any} run */
const failedIn = ({ failed, tools_failed: calls }) =>
	failed ? number(failed) : calls ? count(calls, "call") : "";

/** The class, the name and the cell of each column. @type {[string, string, (run: any) => any][]} */
const COLUMNS = [
	["lanescell", "Agents over time", (run) => h(Spark, { lanes: run.lanes })],
	["num.sub", "Subagents", ({ subagents: n }) => (n === undefined ? "…" : n ? number(n) : "")],
	["num.sub", "Failed", (run) => h("span.bad", failedIn(run))],
	["num.sub", "Files", (run) => (run.files ? number(run.files) : "")],
	["num.cost", "Cost", (run) => (run.cost_usd_micros ? money(run.cost_usd_micros) : "")],
	["num.ran", "Time", ({ duration_ms: ms }) => (typeof ms === "number" ? duration(ms * 1000) : "")],
	[
		"num.sub.soft",
		"Started",
		({ started_us: us }) => (us ? new Date(us / 1000).toISOString().slice(5, 16).replace("T", " ") : ""),
	],
];

/** The rows that the query leaves. @param {any[]} runs @param {Query} query */
function listed(runs, query) {
	const needle = query.text.toLowerCase();
	return runs.filter((run) => {
		if (query.status === "failed" ? !isFailed(run) : query.status && run.status !== query.status)
			return false;
		const texts = [
			run.title,
			run.path,
			run.program,
			run.agent,
			run.status,
			run.standing,
			...(run.models ?? []),
		];
		return !needle || texts.some((each) => each && String(each).toLowerCase().includes(needle));
	});
}

/** @param {{ runs: any[] }} props */
export function RunsPage({ runs }) {
	const { token } = state.given;
	const rows = listed(runs, state.query);
	const counts = new Map([["", runs.length]]);
	for (const { status } of runs) counts.set(status, (counts.get(status) ?? 0) + 1);
	const failed = runs.filter(isFailed).length;
	if (failed) counts.set("failed", failed);
	/** @param {any} more */
	const to = (more) => `?${new URLSearchParams({ token, ...more })}`;
	/** @param {any} name */
	const sum = (name) => rows.reduce((n, run) => n + (run[name] ?? 0), 0);
	const { chosen } = state;
	/** @param {any} id */
	const choose = (id, /** @type {boolean} */ isOn) =>
		set({ chosen: isOn ? [...chosen, id].slice(-2) : chosen.filter((each) => each !== id) });
	return [
		h(
			"header.top",
			{ key: "head" },
			h(
				Crumbs,
				{},
				h("h1.small", "Runs"),
				h("span.grow"),
				h(Copy, { text: () => location.href, what: "a link to what you see", label: "Link", icon: "link" }),
			),
			h(
				"div.row.bar",
				h(
					"div.filters",
					{ role: "search" },
					h(Searched, { label: "Search titles, programs, models" }),
					[...counts].map(([status, n]) =>
						h(
							"button.pill",
							{
								key: status,
								"aria-pressed": String(state.query.status === status),
								"data-status": status,
								onClick: () => set({ query: { status } }),
							},
							status === "failed" ? "with failures " : `${words(status) || "All"} `,
							h("b", number(n)),
						),
					),
				),
				chosen.length === 2
					? h("a.button", { href: to({ log: chosen[0], other: chosen[1] }) }, "Compare the two")
					: h("span.soft", chosen.length ? "choose one more to compare" : ""),
			),
			h(
				"p.facts",
				{ role: "status" },
				h(
					"b",
					rows.length === runs.length
						? count(runs.length, "run")
						: `${number(rows.length)} of ${count(runs.length, "run")}`,
				),
				sum("subagents") ? h("span", count(sum("subagents"), "subagent")) : null,
				sum("cost_usd_micros") ? h("span", `${money(sum("cost_usd_micros"))} together`) : null,
				sum("duration_ms") ? h("span", `${duration(sum("duration_ms") * 1000)} together`) : null,
				state.note && h("span.warn", state.note),
			),
		),
		h(
			"main.runs",
			{ key: "main", id: "main" },
			h(
				"div.item.head",
				{ hush: "true" },
				h("span", ""),
				h("span", "Run"),
				COLUMNS.map(([kind, name]) => h(`span.${kind}`, { key: name }, name)),
			),
			h(List, {
				label: "Runs",
				role: "list",
				name: "run",
				none: runs.length ? "No run matches." : "No runs here yet. Record one: refold record …",
				count: rows.length,
				height: 58,
				active: -1,
				choose: (i) => location.assign(to({ log: rows[i].id })),
				row: (i) => {
					const run = rows[i];
					const href = to({ log: run.id });
					const about = run.question
						? h("span.warn.cut", highlighted(run.question))
						: h(
								"span.soft.cut",
								highlighted(
									[...new Set([run.path, run.program, run.agent, ...(run.models ?? [])])]
										.filter((each) => each && each !== run.title)
										.join(" · "),
								),
							);
					return {
						class: "runrow",
						inside: [
							h("input", {
								type: "checkbox",
								label: `Compare ${run.path}`,
								checked: chosen.includes(run.id),
								onClick: (e) => e.stopPropagation(),
								onChange: (e) => choose(run.id, e.target.checked),
							}),
							h(
								"span.titles",
								h(
									"span.row",
									h(Sign, { status: run.status }),
									h(
										"a.cut",
										{ href, onClick: (e) => e.stopPropagation() },
										highlighted(short(run.title || run.program || run.path, 200)),
									),
									run.status === "completed" ? null : h(Status, { status: run.status }),
								),
								about,
							),
							COLUMNS.map(([kind, name, shown]) => h(`span.${kind}`, { key: name }, shown(run))),
						],
					};
				},
			}),
		),
	];
}
