/** The page: its views, what is selected, the badge, the keys. */
import { check } from "./check.js";
import { compare } from "./compare.js";
import { Store, unpack } from "./data.js";
import { badge, count, folded, h, known, looks, millis, number, offer, picture, quiet, short, starts, to, tone, words } from "./dom.js";
import { entries } from "./entries.js";
import { inspector } from "./inspector.js";
import { lanes } from "./lanes.js";
import { runs } from "./runs.js";
import { state } from "./state.js";
import { thread } from "./thread.js";
import { nodesOf, tree } from "./tree.js";

const KEYS = [["1 … 6", "the views"], ["/", "search; Enter: in all entries"], ["f  F", "next, previous run or call that failed"], ["↑ ↓  j k", "next, previous row or entry"], ["← →", "fold, unfold; along a lane; through the state"], ["+ − 0  ⇧← ⇧→", "lanes: zoom in, out, whole run, move"], ["c", "go to the cause of this entry"], ["d", "next difference"], ["t", "light or dark"], ["Esc", "close the inspector; clear the search"], ["?", "these keys"]];
let given = {};
const query = (path, more = {}) => `${path}?${new URLSearchParams({ token: given.token, ...(given.log ? { log: given.log } : {}), ...more })}`;

function start(page) {
	const store = new Store(page, given.live ? { query } : null);
	starts.ask = (digest) => store.begin(digest, () => views[app.view].list?.later());
	const app = { store, page, at: { log: page.logs[0].id }, node: null, filter: { text: "", status: "", tool: "", agent: "" }, view: page.diff ? "compare" : "tree", ...lookups(store) };

	// --- what is selected ---
	app.select = (log, seq, view = app.view, node = null) => {
		history.replaceState(null, "", to(log, seq, view));
		app.wanted = node;
		route();
	};
	app.choose = (node) => {
		const log = store.logs.get(node.log);
		app.wanted = node;
		if (log && !node.scope && node.log_state !== "none") app.select(node.log, Math.max(0, (log.lines || log.said.entries) - 1), app.view, node);
		else if (node.scope && node.seq !== null) app.select(node.log, node.seq, app.view, node);
		else { app.node = node; app.at = { log: node.log ?? store.root, seq: undefined }; look.draw(); views.tree.list.draw(); }
	};
	app.close = () => { app.node = null; app.at = { log: app.at.log, seq: undefined }; history.replaceState(null, "", `#/${app.view}`); look.draw(); views[app.view].list?.element.focus(); };

	const look = inspector(app);
	const views = { tree: tree(app), lanes: lanes(app), thread: thread(app), entries: entries(app), state: state(app), ...(page.diff ? { compare: compare(app) } : {}) };
	const panel = h("main.main", { id: "main" });
	const tabs = h("nav.tabs", { label: "Views" }, Object.keys(views).map((name, i) => h("button", { "data-view": name, title: `Key ${i + 1}`, onclick: () => go(name) }, name[0].toUpperCase() + name.slice(1))));

	function go(view) { history.pushState(null, "", app.at.seq === undefined ? `#/${view}` : to(app.at.log, app.at.seq, view)); app.wanted = app.node; route(); }
	function route() {
		const [, log, seq, view] = location.hash.match(/^#\/(?:log\/([^/]+)\/(\d+)\/?)?(\w*)$/) ?? [];
		if (log !== undefined) app.at = { log: plain(log), seq: Number(seq) };
		app.node = app.wanted ?? null;
		app.wanted = null;
		const next = Object.hasOwn(views, view) ? view : log !== undefined && !view ? "entries" : app.view;
		app.view = next;
		if (panel.firstChild !== views[next].element) panel.replaceChildren(views[next].element);
		for (const tab of tabs.children) tab.setAttribute("aria-current", tab.getAttribute("data-view") === next ? "page" : "false");
		if (!app.node && next === "tree") app.node = app.at.seq === undefined ? null : app.nodeOf(app.at.log);
		for (const each of Object.values(picks)) each.hidden = !views[next].filters;
		look.draw();
		views[next].place();
		if (next === "entries" && stale) { stale = false; views.entries.update(); }
	}
	addEventListener("hashchange", route);
	addEventListener("popstate", route);

	// --- filters ---
	const text = h("input", { type: "search", placeholder: "Search  ( / )", label: "Search", oninput: () => { app.filter.text = text.value; refilter(); }, onkeydown: (e) => {
		if (e.key === "Enter") { go("entries"); views.entries.everywhere(); }
		if (e.key === "Escape") { text.value = app.filter.text = ""; refilter(); text.blur(); }
	} });
	let waiting, stale;
	const refilter = () => { clearTimeout(waiting); waiting = setTimeout(() => { stale = app.view !== "entries"; views[app.view].update(); }, 120); };
	const FILTERS = { status: (n) => ["not completed", n.status], tool: (n) => [n.tool, ...n.tools.map((use) => use.tool)], agent: (n) => [n.agent || n.program] };
	const picks = Object.fromEntries(Object.keys(FILTERS).map((name) => [name, h("select", { label: name[0].toUpperCase() + name.slice(1), "data-filter": name, onchange: (e) => { app.filter[name] = e.target.value; refilter(); } })]));
	const filters = h("div.filters", { role: "search" }, text, Object.values(picks));
	function options() {
		const nodes = nodesOf(app.page.tree);
		for (const [name, of] of Object.entries(FILTERS)) offer(picks[name], `Any ${name}`, nodes.flatMap(of));
	}

	// --- the badge ---
	const verdict = h("details.verdict");
	function judge() {
		const now = app.checked, told = app.page.verdict, found = [...(now?.problems ?? []), ...told.problems.map((p) => ({ ...p, seq: p.line - 1 }))], wasOpen = verdict.open;
		const where = (p) => `entry ${p.seq} of ${short(p.name ?? app.nameOf(p.log), 60)}`;
		const checking = !now || now.state === "checking", unable = now?.state === "unable", open = now?.open.length ? now.open.slice(0, 5).map((id) => app.nameOf(id)) : ["a log"], isComplete = told.complete && !now?.open.length;
		const intact = now?.problems.length || !told.intact ? ["bad", `not intact: ${where(found[0])}`] : unable ? ["warn", "not checked here"] : checking ? ["plain", `checking … ${Math.floor((now?.done / now?.all) * 100) || 0} %`] : ["good", told.standing === "running" ? "intact so far" : "intact"];
		const complete = isComplete ? ["good", "complete"] : [told.standing ? tone(told.standing) : "warn", told.standing === "broke_off" || !told.standing ? `not complete${told.how && `: ${told.how}`}` : told.how];
		const chip = ([tone, word], name) => h("span", { class: `chip ${tone}`, "data-answer": name }, h("span", { hush: true }, { good: "✓", bad: "✕", warn: "!" }[tone] ?? "·"), " ", word);
		verdict.replaceChildren(h("summary", chip(intact, "intact"), chip(complete, "complete"), chip(["plain", "not signed"], "authentic"), chip(["plain", `guarantee: ${app.page.guarantee}`], "guarantee")),
			h("div.panel", h("p", unable ? `Not checked here: ${now.why}. When the page was written: ${told.intact ? "intact" : "not intact"}.` : checking ? "This page is checking every line of its logs." : `This page has checked ${count(now.done, "entry", "entries")} in ${count(store.logs.size, "log")} itself: each line's hash over the line before it, and both ends of each child.`),
				h("ul", found.slice(0, 40).map((p) => h("li", p.log === null ? short(p.name, 120) : h("a", { href: to(p.log, p.seq, "entries") }, where(p)), `: ${short(p.what, 300)}`)), found.length > 40 && h("li", `and ${number(found.length - 40)} more`)),
				h("p", isComplete ? "Complete: every log is sealed, or its parent holds its head." : `Not complete: ${open.join(", ")} has no recorded end.`),
				told.words.map((each) => h("p", each)), h("p", "Head of the root: ", h("code.head", store.logs.get(store.root).said.head || "–"))));
		verdict.open = wasOpen;
	}
	let shown = 0;
	const progress = (now) => { if (store.page === page && performance.now() - shown > 200) { shown = performance.now(); app.checked = now; judge(); } };

	// --- the head ---
	const sums = h("p.sums"), title = h("h1");
	function head() {
		const { tree: root, totals: all, failures } = app.page, fact = (...words) => h("span.fact", words);
		const { completed, ...others } = all.statuses, bad = Object.entries(others).map(([status, n]) => `${number(n)} ${words(status)}`).join(", ");
		title.replaceChildren(short(app.page.title, 200));
		sums.replaceChildren(fact(badge(root.status)),
			all.subagents ? fact(`${count(all.subagents, root.guarantee ? "conversation" : "subagent")}: `, completed ? `${number(completed)} completed` : "", completed && bad ? ", " : "", bad ? h("button", { class: "bad link", title: "Show the next one (f)", onclick: () => fault(1) }, bad) : null) : "",
			...Object.entries(all.unseen).map(([status, n]) => fact(`${number(n)} ${words(status)}`)),
			all.tools ? fact(count(all.tools, "tool call"), all.tools_failed ? ` (${number(all.tools_failed)} failed)` : "") : "",
			all.notable ? fact(`${number(all.notable)} notable`) : "",
			all.requests ? fact(count(all.requests, "request"), `${failures}, ${root.usage.spent}`, all.subagents && root.own_usage.requests ? ` (its own: ${root.own_usage.spent})` : "") : "",
			known(root.duration_ms, (ms) => fact(millis(ms))),
			app.page.content === false ? fact("content left out") : "", !given.live ? "" : app.lost ? h("span.fact.warn", "not followed: no answer") : root.status === "running" ? h("span.fact.live", "following") : "");
	}
	function fault(by) {
		const bars = new Map(app.page.lanes.map((lane) => [`${lane.log}:${lane.scope ?? ""}`, lane.bars])), { at } = app;
		const bad = nodesOf(app.page.tree).flatMap((node, i) => [...(!i || /^(completed|running)$/.test(node.status) ? [] : [[node]]),
			...(bars.get(`${node.log}:${node.scope}`) ?? []).filter((bar) => bar[2] !== "child" && tone(bar[6]) === "bad").map((bar) => [node, bar[1] ?? bar[0]])]);
		const now = bad.findLastIndex(([node, seq]) => (seq === undefined ? node === app.node : node.log === at.log && seq === at.seq)), [node, seq] = bad.at(now < 0 ? Math.min(0, by) : (now + by) % bad.length) ?? [];
		if (!node) return;
		views.tree.reveal(node);
		if (seq !== undefined) { app.select(node.log, seq, app.view, app.view === "tree" ? node : null); return; }
		if (app.view !== "tree") go("tree");
		app.choose(node);
		views.tree.place();
	}
	const theme = h("button", { class: "theme", title: "Light or dark (t)", onclick: () => turn() }, "Light / dark");
	function turn() { const at = document.documentElement.dataset, dark = at.theme ? at.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches; at.theme = dark ? "light" : "dark"; }
	const help = h("dialog.help", { label: "Keys" }, h("h2", "Keys"), h("dl", KEYS.map(([key, does]) => [h("dt", key), h("dd", does)])), h("button", { onclick: () => help.close() }, "Close"));

	addEventListener("keydown", (e) => {
		const on = e.target;
		if (e.ctrlKey || e.metaKey || e.altKey || help.open || (/INPUT|SELECT/.test(on.tagName) && e.key !== "Escape")) return;
		const log = store.logs.get(app.at.log), seq = app.at.seq ?? -1, names = Object.keys(views);
		const step = (by) => () => { if (log && seq + by >= 0 && seq + by < log.lines) app.select(app.at.log, seq + by); };
		const cause = log && seq >= 0 ? store.cause(app.at.log, seq) : null, act = ({
			"/": () => { text.focus(); text.select(); }, f: () => fault(1), F: () => fault(-1), t: turn, "?": () => help.showModal(), Escape: () => app.close(),
			...(views[app.view].list ? {} : { j: step(1), k: step(-1) }),
			c: () => { if (cause) app.select(cause[1], cause[2]); }, d: () => { if (page.diff) { if (app.view !== "compare") go("compare"); views.compare.next(); } },
			...(app.view === "state" && on.tagName !== "BUTTON" ? { ArrowRight: step(1), ArrowLeft: step(-1) } : {}),
		})[e.key] ?? (names[Number(e.key) - 1] ? () => go(names[Number(e.key) - 1]) : null);
		if (!act && (on === document.body || /^[jk]$/.test(e.key))) views[app.view].list?.key(e, true);
		if (!act || e.defaultPrevented) return;
		e.preventDefault();
		act();
	});

	/** Where a replay diverged: the first of each kind in full, links to the others. */
	const link = ({ log, seq }) => (log === null ? "a run that is not on this page" : h("a", { href: to(log, seq ?? 0, "entries") }, `${app.nameOf(log)}, entry ${seq ?? 0}`));
	const diverged = page.divergences && h("section.pinned.bad", { label: "Divergence of the replay" }, page.divergences.map((each) => [h("h3", "Its replay diverged: ", link(each)), folded(each.text),
		each.more.length > 0 && h("details", h("summary", `The same in ${count(each.more.length, "more run")}`), h("ul", each.more.map((one) => h("li", link(one)))))]));

	document.getElementById("app")?.replaceWith(h("div.app", { id: "app" }, h("a.skip", { href: "#main", onclick: (e) => { e.preventDefault(); (views[app.view].list?.element ?? panel).focus(); } }, "To the content"),
		h("header.top", h("div.titles", title, given.live ? h("a", { href: `?${new URLSearchParams({ token: given.token })}`, class: "quiet" }, "All runs") : null, verdict, h("span.buttons", h("button", { title: "Keys (?)", onclick: () => help.showModal() }, "Keys"), theme)), sums, diverged, h("div.tools", tabs, filters)), panel, look.element, help));
	options();
	head();
	judge();
	route();
	let told = null;
	store.tell = () => { told ??= setTimeout(() => { told = null; views[app.view].grown?.(); if (app.at.seq !== undefined) look.draw(); }, 100); };
	/** Bytes and check are of one document: the newest is taken when the one before is done with. */
	let newest = page, busy = false;
	async function follow() {
		if (busy) return;
		busy = true;
		try { while (newest) await take(newest); } finally { busy = false; }
	}
	async function take(fresh) {
		newest = null;
		store.take(fresh);
		await store.load();
		app.checked = await check(store, progress);
		const key = app.node?.key;
		app.page = fresh;
		Object.assign(app, lookups(store));
		if (app.node) app.node = nodesOf(fresh.tree).find((node) => node.key === key) ?? null;
		options();
		head();
		judge();
		views[app.view].update();
		look.draw();
		document.body.dataset.made = fresh.made;
	}
	follow();
	if (given.live) {
		const source = new EventSource(query("events", { made: page.made }));
		source.onmessage = (e) => { newest = JSON.parse(e.data).page; follow(); };
		source.onopen = source.onerror = (e) => { app.lost = e.type === "error"; head(); };
	}
	return app;
}

function plain(part) { try { return decodeURIComponent(part); } catch { return part; } }

/** What the views ask of the document. */
function lookups(store) {
	const ofLog = new Map(), ofScope = new Map(), children = new Map();
	for (const run of store.runs) for (const node of nodesOf(run.tree)) {
		if (node.scope) ofScope.set(`${node.log}:${node.scope}`, node);
		else if (node.log !== null && !ofLog.has(node.log)) ofLog.set(node.log, node);
	}
	for (const log of store.logs.values()) if (log.said.parent) children.set(`${log.said.parent.log}:${log.said.parent.seq}`, log.id);
	const stems = new Map(store.runs.flatMap((run) => run.logs.map((log) => [log.id, run.logs[0].name.length - 5])));
	return {
		nodeOf: (log, scope = null) => (scope && ofScope.get(`${log}:${scope}`)) || ofLog.get(log) || null,
		childOf: (log, seq) => children.get(`${log}:${seq}`) ?? null,
		nameOf(log, small = false) {
			const node = ofLog.get(log), name = String(store.logs.get(log)?.said.name ?? `log ${log}`), last = name.replace(/\.jsonl$/, "").slice(stems.get(log));
			return small ? (node?.number ? `#${last}` : "root") : node ? `${short(node.name, 60)}${node.number ? ` #${last}` : ""}` : name;
		},
		blobOf: (digest) => blob(store, digest),
	};
}

/** A blob as an image where it is one, else as text. */
function blob(store, digest) {
	const box = h("div", quiet("reading …"));
	store.blob(digest).then((bytes) => box.replaceChildren(bytes ? picture(bytes) ?? folded(new TextDecoder().decode(bytes)) : quiet(`blob ${short(digest, 12)}: not on this page`)), () => box.replaceChildren(quiet("this large text cannot be unpacked")));
	return box;
}

/** The document in the page: gzipped in a file, plain from the server. */
async function boot() {
	const block = document.getElementById("page"), parts = [];
	if (block?.getAttribute("type") === "application/json") given = JSON.parse(block.textContent ?? "{}");
	else if (block) { await unpack([block], (part) => parts.push(part)); given = JSON.parse(await new Blob(parts).text()); }
	Object.assign(looks, given.looks);
	if (!given.live) start(given);
	else if (!given.log) document.getElementById("app")?.replaceWith(runs(query));
	else {
		const reply = await fetch(query("page"));
		if (!reply.ok) throw new Error(await reply.text());
		start(await reply.json());
	}
}
boot().catch((error) => document.getElementById("app")?.append(h("p.none", `This page cannot be shown: ${error instanceof Error ? error.message : error}`)));
