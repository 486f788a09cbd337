/** A run on one screen: what happened, who was busy when, who asked whom, and the chosen agent. */
import { Component } from "./vendor/preact.js";
import { AgentView, go, linked } from "./agent.js";
import { List, h } from "./dom.js";
import {
	NO_QUERY,
	choices,
	failedIn,
	index,
	isAsked,
	isRed,
	nameOf,
	outline,
	search,
	timeOf,
} from "./model.js";
import { Choice, Copy, Diff, Ended, Icon, Searched, Sign, Status, Tool, highlighted } from "./parts.js";
import { set, state } from "./store.js";
import { Timeline } from "./timeline.js";
import { costOf, count, fileText, number, quoted, short, tokensOf, words } from "./words.js";

/** @type {{ of: any, query: any, found: Hit[] }} */
let searched = { of: null, query: null, found: [] };

/** What the query finds in the run, searched once. @param {Run} run */
export function hits(run) {
	if (!isAsked(state.query)) return null;
	const query = JSON.stringify(state.query);
	if (searched.of !== run.agents || searched.query !== query)
		searched = { of: run.agents, query, found: search(run, state.query) };
	return searched.found;
}

/** The agents in which something was found. @param {Hit[] | null} found */
export const agentsOf = (found) => found && new Set(found.map((hit) => hit.agent.key));

/** @param {Run} run */
export const agentOf = (run) =>
	index(run).byKey.get(state.at.agent) ?? index(run).byKey.get(run.main) ?? run.agents[0];

/** Scroll to what the address names, once it is drawn. */
export function reveal() {
	requestAnimationFrame(() =>
		requestAnimationFrame(() => {
			const { turn, step } = state.at;
			if (turn === null) scrollTo({ top: 0 });
			else {
				const found = document.getElementById(step === null ? `t${turn}` : `t${turn}s${step}`);
				(found?.querySelector("mark") ?? found)?.scrollIntoView({ block: "center" });
			}
		}),
	);
}

// --- the head

const NOT_SIGNED =
	"Anyone who can write the logs can write other intact ones. Only a head that is kept elsewhere can detect that.";
/** @type {Record<string, string>} */
const GUARANTEES = {
	kernel:
		"Guarantee “kernel”: the program ran on Refold's kernel; replay executes it again and names each divergence.",
	matched: "Guarantee “matched”: a command was watched; replay matches its requests.",
};

/** @type {Component | null} */
let badge = null;

/** Show how far the check of the logs has come. @param {Checked} checked */
export function showChecked(checked) {
	state.checked = checked;
	badge?.setState({});
}

/** What the page found of its logs by itself; drawn alone while it checks them. */
class Verdict extends Component {
	componentDidMount() {
		badge = this;
	}
	/** @param {{ run: Run }} props */
	render({ run }) {
		const { checked: now, store } = state;
		const told = run.verdict;
		const { status, standing } = run.agents[0];
		/** @param {any} id */
		const nameOfLog = (id) => short(logName(run, id), 60);
		const found = [
			...(now?.problems ?? []),
			...told.problems.map((/** @type {any} */ p) => ({ ...p, seq: p.line - 1 })),
		];
		/** @param {any} p */
		const where = (p) => `entry ${p.seq} of ${p.name ? short(p.name, 60) : nameOfLog(p.log)}`;
		const isChecking = !now || now.state === "checking";
		const isUnable = now?.state === "unable";
		const open = now?.open.length ? now.open.slice(0, 5).map(nameOfLog) : ["a log"];
		const isComplete = told.complete && !now?.open.length;
		const percent = now ? Math.floor((now.done / now.all) * 100) || 0 : 0;
		const intact =
	    now?.problems.length || !told.intact ? ["bad", `not intact: ${where(found[0] ?? { seq: 0, log: null })}`]
	    : isUnable ? ["warn", "not checked here"]
	    : isChecking ? ["plain", `checking … ${percent} %`]
	    : ["good", status === "running" ? "intact so far" : "intact"]; // prettier-ignore
		const broke = status === "broke_off" || !standing;
		const how = broke ? `not complete${standing && `: ${standing}`}` : words(status);
		const complete = isComplete ? ["good", "complete"] : ["warn", how];
		/** @type {Record<string, string>} */
		const icons = { good: "shield", bad: "cross", warn: "ask", plain: "dots" };
		/** @param {string[]} given @param {string} name */
		const chip = ([tone, word], name) =>
			h(
				"span",
				{ class: `pill ${tone}`, "data-answer": name },
				h(Icon, { name: icons[tone] }),
				h("span.cut", word),
			);
		return h(
			"details.verdict",
			h("summary", chip(intact, "intact"), chip(complete, "complete")),
			h(
				"div.panel",
				h(
					"p",
					isUnable
						? `Not checked here: ${now.why}. When the page was written: ${told.intact ? "intact" : "not intact"}.`
						: isChecking
							? "This page is checking every line of its logs."
							: `This page has checked ${count(now.done, "entry", "entries")} in ${count(store.logs.size, "log")} itself: each line's hash over the line before it, and both ends of each child.`,
				),
				found.length > 0 &&
					h(
						"ul",
						found
							.slice(0, 40)
							.map((p, key) =>
								h(
									"li",
									{ key },
									p.log === null
										? short(p.name, 120)
										: h("a", { href: `#log=${encodeURIComponent(p.log)}&seq=${p.seq}` }, where(p)),
									`: ${short(p.what, 300)}`,
								),
							),
						found.length > 40 && h("li", `and ${number(found.length - 40)} more`),
					),
				h(
					"p",
					isComplete
						? "Complete: every log is sealed, or its parent holds its head."
						: `Not complete: ${open.join(", ")} has no recorded end.`,
				),
				h("p", h("span", { "data-answer": "authentic" }, "Not signed. "), NOT_SIGNED),
				h("p", { "data-answer": "guarantee" }, GUARANTEES[run.guarantee]),
				h(
					"p",
					"Head of the root: ",
					h("code.head", run.logs[0].head || "–"),
					h(Copy, { text: run.logs[0].head, what: "the head" }),
				),
			),
		);
	}
}

/** The name of a log for people: of whom it is. @param {Run} run @param {string | null} id */
export function logName(run, id) {
	for (const each of run.diff ? [run, run.diff.other] : [run]) {
		const agent = each.agents.find((one) => one.log === id && !one.scope);
		const log = each.logs.find((one) => one.id === id);
		if (log) return agent ? nameOf(agent) : log.name;
	}
	return id ?? "a log that is not here";
}

export const cycle = () => {
	const { theme } = document.documentElement.dataset;
	const dark = theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
	document.documentElement.dataset.theme = dark ? "light" : "dark";
};
/** The list of runs, or this one. */
const home = () => (state.given.live ? `?${new URLSearchParams({ token: state.given.token })}` : "?");

/** The line on top of each page. @param {{ children?: any }} props */
export const Crumbs = ({ children }) =>
	h(
		"div.row.crumbs",
		h(
			"a.brand",
			{ href: home(), title: state.given.live ? "All runs" : "This run from its beginning" },
			h("svg", { viewBox: "0 0 16 16", hush: "true" }, h("path", { d: "M2 3h8a4 4 0 010 8H6l3-3M6 11l3 3" })),
			"Refold",
		),
		h("span.soft", { hush: "true" }, "/"),
		children,
		h(Tool, { title: "Light or dark (t)", icon: "theme", act: cycle }),
		h(Tool, { title: "Keys (?)", icon: "key", act: help }),
	);

/** Show the keys. */
export const help = () => /** @type {any} */ (document.querySelector("dialog.help"))?.showModal();

/** @param {{ run: Run }} props */
function Question({ run }) {
	const { question } = run;
	if (!question) return null;
	const asked = question.schema?.type;
	const answers = ["true", "false", "…"].filter((each) => !asked || (asked === "boolean") === (each !== "…"));
	/** @type {Record<string, string>} */
	const names = { true: "yes", false: "no", "…": "other" };
	return h(
		"section.ask",
		{ label: "Question" },
		h(Icon, { name: "ask", tone: "warn" }),
		h("p.grow", h("b", "Question: "), highlighted(short(question.question, 2000))),
		answers.map((each) =>
			h(Copy, {
				key: each,
				text: `refold resume ${quoted(run.path)} --answer ${quoted(`${question.call}=${each}`)}`,
				what: `the command that answers ${names[each]}`,
				label: `Copy: ${names[each]}`,
			}),
		),
	);
}

/** Files that changed, and which agents changed them. @param {{ run: Run }} props */
function Files({ run }) {
	const files = run.agents[0].files;
	if (!files.length) return null;
	const rows = files.slice(0, 200).map((file) => {
		const by = run.agents.filter(
			({ parent, files }) => parent && files.some(({ path }) => path === file.path),
		);
		return h(
			"li",
			{ key: file.path },
			h("code", highlighted(fileText(file))),
			h("span.soft", " by "),
			by.length
				? by.map((agent, i) => [i ? ", " : "", linked(agent, "a", [nameOf(agent)])])
				: "no agent alone",
			run.changes.map(({ path, diff }) => path === file.path && diff && Diff(diff.split("\n"))),
		);
	});
	return h(
		"details.files",
		h("summary", h("b", count(files.length, "file")), " changed"),
		h(
			"div.panel",
			h("ul", rows),
			files.length > 200 && h("p.soft", `and ${number(files.length - 200)} more`),
		),
	);
}

/** What is searched, and the pages of a comparison. @param {{ run: Run }} props */
function Search({ run }) {
	const found = choices(run);
	/** @param {keyof Query} name @param {string} any */
	function pick(name, any) {
		const value = state.query[name];
		if (found[name].size <= (name === "status" || name === "agent" ? 1 : 0) && !value) return null;
		const sorted = [...found[name]].sort((a, b) => (a[0] < b[0] ? -1 : 1)).slice(0, 500);
		return h(Choice, {
			label: any,
			"data-filter": name,
			value,
			options: [["", any], ...sorted.map(([each, n]) => [each, `${short(words(each), 50)} (${number(n)})`])],
			choose: (each) => set({ query: { [name]: each } }),
		});
	}
	return h(
		"div.filters",
		{ role: "search" },
		h(Searched, { label: "Search the run" }),
		pick("status", "Any status"),
		pick("tool", "Any tool"),
		pick("agent", "Any agent"),
		pick("files", "Any file"),
		isAsked(state.query) && h("button.small", { onClick: () => set({ query: NO_QUERY }) }, "Clear"),
	);
}

/** @param {{ run: Run, fault: (by: number) => void }} props */
export function Head({ run, fault }) {
	const root = run.agents[0];
	const all = run.totals;
	const bad = run.agents.filter(isRed).length;
	const { completed, ...others } = all.statuses;
	const done = completed ? [`${number(completed)} completed`] : [];
	const kind = root.guarantee ? "conversation" : "subagent";
	const not = Object.entries(others).map(([status, n]) => `${number(n)} ${words(status)}`);
	const cost = costOf(root);
	const notable = run.agents.find((agent) => Object.keys(agent.notable).length);
	const isLive = state.given.live;
	return h(
		"header.top",
		h(
			Crumbs,
			{},
			isLive && [h("a", { href: home() }, "Runs"), h("span.soft", { hush: "true" }, "/")],
			h("span.cut", run.name),
			h("span.grow"),
			isLive &&
				(state.lost
					? h("span.warn.live", "not followed: no answer")
					: root.status === "running"
						? h("span.good.live", h("i", { hush: "true" }), "following")
						: null),
			h(Verdict, { run }),
			h(Copy, {
				text: `refold show ${quoted(run.path)}`,
				what: "the command that shows this run",
				label: "Command",
			}),
			h(Copy, { text: () => location.href, what: "a link to what you see", label: "Link", icon: "link" }),
		),
		h(
			"div.row.heading",
			h("h1", highlighted(run.title)),
			h(Status, { status: root.status }),
			bad > 0 &&
				h(
					"button.pill.bad",
					{ title: "Show the next one (f)", onClick: () => fault(1) },
					`Something failed in ${count(bad, "agent")} · next`,
				),
		),
		h(Question, { run }),
		h(
			"div.facts.sums",
			all.subagents > 0 &&
				h("span", h("b", count(all.subagents, kind)), not.length ? `: ${[...done, ...not].join(", ")}` : ""),
			Object.entries(all.unseen).map(([status, n]) =>
				h("span", { key: status }, `${count(Number(n), "delegation")} ${words(status)}`),
			),
			timeOf(root) && h("b", timeOf(root)),
			all.requests > 0 &&
				h(
					"span",
					h("b", cost),
					cost ? " " : "",
					h("span.soft", `${tokensOf(root.spent)} in ${count(all.requests, "request")}`),
					h("span.bad", run.failures),
				),
			all.tools > 0 &&
				h(
					"span",
					count(all.tools, "tool call"),
					h("span.bad", all.tools_failed ? `, ${number(all.tools_failed)} failed` : ""),
				),
			h(Files, { run }),
			notable && linked(notable, "a", [`${number(all.notable)} notable`]),
			h("span.soft", [...new Set(run.agents.flatMap((agent) => agent.models))].slice(0, 5).join(", ")),
			run.content === false && h("span.warn", "content left out"),
		),
		h(
			"div.row.bar",
			run.diff &&
				h(
					"nav.row.pages",
					{ label: "Pages" },
					["", "difference"].map((view) =>
						h(
							"button",
							{
								key: view,
								"data-view": view || "run",
								"aria-current": state.at.view === view ? "page" : "false",
								onClick: () => set({ at: { view } }, true),
							},
							view ? "Difference" : "Run",
						),
					),
				),
			state.at.view === "difference" ? null : h(Search, { run }),
		),
	);
}

// --- what is found

/** Where the query hits: each place opens where it stands. @param {{ found: Hit[] }} props */
function Places({ found }) {
	const agents = agentsOf(found)?.size ?? 0;
	const { text, status, tool, agent, files } = state.query;
	const asked = [
		text && `“${text}”`,
		status && `status ${words(status)}`,
		tool && `calls of ${tool}`,
		agent && `agent ${agent}`,
		files && `file ${files}`,
	].filter(Boolean);
	const { at } = state;
	const active = found.findIndex(
		(hit) => hit.agent.key === at.agent && hit.turn === at.turn && hit.step === at.step,
	);
	return h(
		"section.places",
		{ label: "Places found" },
		h(
			"p.row",
			{ role: "status" },
			h("b", count(found.length, "place")),
			h("span.grow.cut", `${found.length ? `in ${count(agents, "agent")}` : ""}: ${asked.join(", ")}`),
		),
		h(List, {
			label: "Places found",
			name: "place",
			none: "Nothing in the agents matches. Entries of all kinds are in the Log.",
			count: found.length,
			height: 30,
			max: 240,
			active,
			choose: (i) => {
				set({ at: { agent: found[i].agent.key, turn: found[i].turn, step: found[i].step } });
				reveal();
			},
			row: (i) => {
				const hit = found[i];
				return {
					class: "place",
					inside: [
						h(Sign, { status: hit.status }),
						h("b.who.cut", nameOf(hit.agent)),
						h("span.what.cut", highlighted(hit.what)),
						h("span.snippet.cut", highlighted(hit.snippet)),
					],
				};
			},
		}),
	);
}

/** Who asked whom. */
class Outline extends Component {
	/** @type {{ folded: Set<string> }} */
	state = { folded: new Set() };
	/** @param {Agent} agent @param {boolean} isOpen */
	fold(agent, isOpen) {
		const folded = new Set(this.state.folded);
		folded[isOpen ? "delete" : "add"](agent.key);
		this.setState({ folded });
	}
	/** @param {any} props @param {any} now */
	render({ run, only, agent }, now) {
		const rows = outline(run, now.folded, only);
		const base = run.agents[0].depth;
		const hasCost = run.agents.some(costOf);
		return h(
			"nav.outline",
			{ label: "Agents", style: { "--rows": rows.length } },
			h(List, {
				label: "Agents",
				name: "agent",
				role: "tree",
				none: "No agent matches.",
				count: rows.length,
				height: 28,
				active: rows.indexOf(agent),
				choose: (i) => go(rows[i].key),
				keys: (e) => {
					if (!/Left|Right/.test(e.key) || !agent) return false;
					this.fold(agent, e.key === "ArrowRight");
					return true;
				},
				row: (i) => {
					const each = rows[i];
					const bad = failedIn(each);
					const isFolded = now.folded.has(each.key);
					return {
						class: `who ${only && !only.has(each.key) ? "dim" : ""}`,
						"aria-level": each.depth - base + 1,
						"aria-expanded": each.below ? String(!isFolded) : undefined,
						inside: [
							h("span.indent", { style: { width: `${Math.min(8, each.depth - base) * 12}px` } }),
							h(
								"span",
								{
									class: `twist ${isFolded ? "" : "open"}`,
									hush: "true",
									onClick: (e) => each.below && (e.stopPropagation(), this.fold(each, isFolded)),
								},
								each.below ? h(Icon, { name: "right" }) : null,
							),
							Ended(each),
							h("span.name.cut", highlighted(nameOf(each)), bad ? h("span.bad", ` ·${bad}`) : null),
							hasCost && h("span.cost", { title: each.spent }, costOf(each)),
							h("span.took", timeOf(each)),
						],
					};
				},
			}),
		);
	}
}

/** @param {{ run: Run, fault: (by: number) => void, drawer: any }} props */
export function RunPage({ run, fault, drawer }) {
	const found = hits(run);
	const only = agentsOf(found);
	const agent = agentOf(run);
	const rows = outline(run, new Set(), only).filter((each) => each.interval[0] !== null);
	return [
		h(Head, { run, fault, key: "head" }),
		h(Timeline, { run, rows, only, active: rows.indexOf(agent), key: "time" }),
		h(
			"div.body",
			{ key: "body" },
			h(Outline, { run, only, agent }),
			h("div.middle", found && h(Places, { found }), h(AgentView, { run, agent })),
			drawer,
		),
	];
}
