/** The page: what it shows, the keys, the check of its logs, and what comes while a run grows. */
import { render } from "./vendor/preact.js";
import { check } from "./check.js";
import { Store, whole } from "./data.js";
import { DifferencePage } from "./difference.js";
import { h } from "./dom.js";
import { Drawer, toCause } from "./log.js";
import { NO_QUERY, apply, failures, nextOf, outline, placed } from "./model.js";
import { RunPage, agentOf, agentsOf, cycle, help, hits, reveal, showChecked } from "./run.js";
import { RunsPage } from "./runs.js";
import { onChange, set, state } from "./store.js";

const KEYS = [
	["/", "search"],
	["n  N", "next, previous place that was found"],
	["f  F", "next, previous agent, request or call that failed"],
	["↑ ↓  j k", "next, previous agent; in the Log, entry"],
	["l", "the Log of what is chosen"],
	["c", "in the Log, the cause of this entry"],
	["d", "the difference; its next cause"],
	["t", "light or dark"],
	["Esc", "close the Log; clear the search"],
	["?", "these keys"],
];
const root = /** @type {Element} */ (document.getElementById("app"));
/** @param {any} path */
const ask = (path, more = {}) => {
	const { token, log, other } = state.given;
	return `${path}?${new URLSearchParams({ token, ...(log ? { log } : {}), ...(other ? { other } : {}), ...more })}`;
};

const Help = () =>
	h(
		"dialog.help",
		{ label: "Keys" },
		h("h2", "Keys"),
		h(
			"dl",
			KEYS.map(([key, does]) => [h("dt", { key }, key), h("dd", { key: does }, does)]),
		),
		h(
			"button",
			{ onClick: () => /** @type {any} */ (document.querySelector("dialog.help"))?.close() },
			"Close",
		),
	);

function App() {
	const { run, runs, at } = state;
	const skip = h(
		"a.skip",
		{
			key: "skip",
			href: "#main",
			onClick: (e) => (e.preventDefault(), document.getElementById("main")?.focus()),
		},
		"To the content",
	);
	if (runs) return [skip, h(RunsPage, { runs, key: "runs" }), h(Help, { key: "help" })];
	if (!run) return h("p.none", "Reading …");
	const Page = run.diff && at.view === "difference" ? DifferencePage : RunPage;
	return [skip, h(Page, { run, fault, drawer: h(Drawer, {}), key: "page" }), h(Help, { key: "help" })];
}

/** Go to the next of some places. @param {Spot[]} places @param {number} by */
function next(places, by) {
	const agent = agentOf(state.run).key;
	const to = nextOf(places, { ...state.at, agent }, by);
	if (!to) return;
	set({ at: { view: "", ...to } }, true);
	reveal();
}

/** Go to the next of what is red. @param {number} by */
const fault = (by) => next(failures(state.run), by);

/** Go to the next place that was found. @param {number} by */
function place(by) {
	const found = hits(state.run) ?? [];
	next(
		found.map(({ agent, turn, step }) => ({ agent: agent.key, turn, step })),
		by,
	);
}

/** @param {number} by */
function move(by) {
	const { run } = state;
	const { log, seq, view, cause } = state.at;
	if (log) {
		const to = (seq ?? 0) + by;
		if (to >= 0 && to < (state.store.logs.get(log)?.lines ?? 0)) set({ at: { seq: to } });
	} else if (view === "difference")
		set({ at: { cause: Math.min((run.diff?.causes.length ?? 1) - 1, Math.max(0, cause + by)) } });
	else {
		const rows = outline(run, new Set(), agentsOf(hits(run)));
		const to = rows[rows.indexOf(agentOf(run)) + by];
		if (to) set({ at: { agent: to.key, turn: null, step: null } });
	}
}

function openLog() {
	const { run } = state;
	const agent = agentOf(run);
	const { turn, step } = state.at;
	const chosen = turn === null ? null : step === null ? agent.turns[turn] : agent.turns[turn]?.steps[step];
	if (agent.log)
		set({ at: { log: agent.log, seq: chosen?.entries.at(-1) ?? agent.seq ?? 0, tab: "" } }, true);
}

function escape() {
	if (state.at.log) set({ at: { log: "", seq: null, tab: "" } }, true);
	else set({ query: NO_QUERY, at: { from: null, to: null } });
}

function difference() {
	const { run, at } = state;
	if (!run?.diff) return;
	const next = at.view === "difference" ? (at.cause + 1) % Math.max(1, run.diff.causes.length) : at.cause;
	set({ at: { view: "difference", cause: next } }, true);
}

/** @type {Record<string, () => void>} */
const ACTS = {
	"/": () => /** @type {any} */ (document.querySelector("input[type=search]"))?.select(),
	f: () => fault(1),
	F: () => fault(-1),
	n: () => place(1),
	N: () => place(-1),
	j: () => move(1),
	k: () => move(-1),
	ArrowDown: () => move(1),
	ArrowUp: () => move(-1),
	l: openLog,
	c: toCause,
	d: difference,
	t: cycle,
	"?": help,
	Escape: escape,
};

addEventListener("keydown", (e) => {
	const on = /** @type {HTMLElement} */ (e.target);
	const isTyped = /INPUT|SELECT|TEXTAREA/.test(on.tagName);
	if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
	if (isTyped && on.getAttribute("type") !== "checkbox") {
		if (e.key === "Enter" && state.run) place(1);
		if (e.key === "Escape") on.blur();
		else return;
	}
	if (e.key.startsWith("Arrow") && on !== document.body) return;
	if (!Object.hasOwn(ACTS, e.key) || e.defaultPrevented || (!state.run && !/^[/t?]$|^Escape$/.test(e.key)))
		return;
	e.preventDefault();
	ACTS[e.key]();
});

/** Read the address; one that names an entry alone opens it beside what is shown. */
function route() {
	const { query, at } = placed(location.hash);
	set({ query, at });
	if (state.run && at.turn !== null) reveal();
}
addEventListener("hashchange", route);
addEventListener("popstate", route);

// --- what is read

let shown = 0;
/** @param {any} now */
function progress(now) {
	if (performance.now() - shown < 200) return;
	shown = performance.now();
	showChecked({ ...now });
}

/** @type {Run | null} */
let newest = null;
let isBusy = false;
/** Take the newest document: its bytes and their check, before the next one. */
async function follow() {
	if (isBusy) return;
	isBusy = true;
	try {
		while (newest) {
			const fresh = newest;
			newest = null;
			state.store.take(fresh);
			await state.store.load();
			const checked = await check(state.store, progress);
			document.body.dataset.made = fresh.made ?? "";
			set({ run: fresh, checked });
		}
	} finally {
		isBusy = false;
	}
}

/** @param {Run} run */
function start(run) {
	const store = new Store(run, state.given.live ? ask : null);
	let isTold = false;
	store.onGrowth = () => {
		if (isTold) return;
		isTold = true;
		setTimeout(() => {
			isTold = false;
			if (state.at.log) set({});
		}, 100);
	};
	document.title = run.title;
	set({ run, store, ...placed(location.hash) });
	if (!location.hash && run.diff) set({ at: { view: "difference" } });
	if (state.at.turn !== null) reveal();
	let latest = run;
	newest = run;
	follow();
	if (!state.given.live) return;
	const source = new EventSource(ask("events", { made: run.made }));
	source.onmessage = (e) => {
		latest = apply(latest, JSON.parse(e.data));
		newest = latest;
		follow();
	};
	source.onopen = () => set({ lost: false });
	source.onerror = () => set({ lost: true });
}

async function list() {
	if (document.hidden && state.runs?.length) return;
	try {
		set({ runs: (await (await fetch(ask("runs"))).json()).runs ?? [], note: "" });
	} catch {
		set({ runs: state.runs ?? [], note: "The server does not answer." });
	}
}

/** The document in the page: gzipped in a file, plain from the server. */
async function boot() {
	const block = document.getElementById("page");
	/** @type {any} */
	let given = {};
	if (block?.getAttribute("type") === "application/json") given = JSON.parse(block.textContent ?? "{}");
	else if (block) given = JSON.parse((await (await whole("#page", false))?.text()) ?? "{}");
	state.given = given.live ? given : {};
	root.replaceChildren();
	onChange(() => render(h(App, {}), root));
	if (!given.live) start(given);
	else if (!given.log) {
		set(placed(location.hash));
		await list();
		setInterval(list, 5000);
	} else {
		const reply = await fetch(ask("page"));
		if (!reply.ok) throw new Error(await reply.text());
		start(await reply.json());
	}
}
boot().catch((error) => {
	const text = document.createElement("p");
	text.textContent = `This page cannot be shown: ${error instanceof Error ? error.message : error}`;
	root.append(text);
});
