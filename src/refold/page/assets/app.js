/** The page: its views, what is selected, the badge, the keys. */
import { check } from "./check.js";
import { compare } from "./compare.js";
import { Store, unpack } from "./data.js";
import { badge, count, duration, folded, h, number, picture, short, spent, starts } from "./dom.js";
import { entries } from "./entries.js";
import { inspector } from "./inspector.js";
import { lanes } from "./lanes.js";
import { runs } from "./runs.js";
import { state } from "./state.js";
import { thread } from "./thread.js";
import { nodesOf, tree } from "./tree.js";

const VIEWS = { tree: "Tree", lanes: "Lanes", thread: "Thread", entries: "Entries", state: "State", compare: "Compare" };
const KEYS = [["1 … 6", "the views"], ["/", "search; Enter searches all entries"], ["f  F", "next, previous run that did not complete"], ["↑ ↓  j k", "next, previous row or entry"], ["← →", "fold and unfold; along a lane; through the state"], ["+ − 0  ⇧← ⇧→", "zoom in, zoom out, whole run, move (lanes)"], ["c", "to what led to this entry"], ["d", "next difference"], ["t", "light or dark"], ["Esc", "close the inspector; clear the search"], ["?", "these keys"]];
let given = {};
const query = (path, more = {}) => `${path}?${new URLSearchParams({ token: given.token, ...(given.log ? { log: given.log } : {}), ...more })}`;

function start(page) {
	const store = new Store(page, given.live ? { query } : null);
	starts.ask = (digest) => store.begin(digest, () => views[app.view].list?.later());
	const app = { store, page, at: { log: 0 }, node: null, filter: { text: "", status: "", tool: "", agent: "" }, view: page.diff ? "compare" : "tree", ...lookups(store) };

	// --- what is selected, in the address ---
	app.select = (log, seq, view = app.view, node = null) => {
		history.replaceState(null, "", `#/log/${log}/${seq}/${view}`);
		app.wanted = node;
		route();
	};
	app.choose = (node) => {
		const log = store.logs.get(node.log);
		app.wanted = node;
		if (log && !node.scope && node.log_state !== "none") app.select(node.log, Math.max(0, (log.lines || log.said.entries) - 1), app.view, node);
		else if (node.scope && node.seq !== null) app.select(node.log, node.seq, app.view, node);
		else { app.node = node; app.at = { log: node.log ?? 0, seq: undefined }; look.draw(); views.tree.list.draw(); }
	};
	app.chooseLane = (lane) => { const node = app.nodeOf(lane.log, lane.scope); if (node) app.choose(node); else app.select(lane.log, 0); };
	app.close = () => { app.node = null; app.at = { log: app.at.log, seq: undefined }; history.replaceState(null, "", `#/${app.view}`); look.draw(); views[app.view].list?.element.focus(); };

	const look = inspector(app);
	const views = { tree: tree(app), lanes: lanes(app), thread: thread(app), entries: entries(app), state: state(app), ...(page.diff ? { compare: compare(app) } : {}) };
	const panel = h("main.main", { id: "main" });
	const tabs = h("nav.tabs", { label: "Views" }, Object.entries(VIEWS).filter(([name]) => views[name]).map(([name, word], i) => h("button", { "data-view": name, title: `${word} (${i + 1})`, onclick: () => go(name) }, word)));

	function go(view) { history.pushState(null, "", app.at.seq === undefined ? `#/${view}` : `#/log/${app.at.log}/${app.at.seq}/${view}`); app.wanted = app.node; route(); }
	function route() {
		const [, , log, seq, view] = location.hash.match(/^#\/(log\/(\d+)\/(\d+)\/?)?(\w*)$/) ?? [];
		if (log !== undefined) app.at = { log: Number(log), seq: Number(seq) };
		app.node = app.wanted ?? null;
		app.wanted = null;
		const next = Object.hasOwn(views, view) ? view : log !== undefined && !view ? "entries" : app.view;
		if (next !== app.view || !panel.firstChild) { app.view = next; panel.replaceChildren(views[next].element); }
		for (const tab of tabs.children) tab.setAttribute("aria-current", tab.getAttribute("data-view") === next ? "page" : "false");
		if (!app.node && next === "tree") { const node = app.nodeOf(app.at.log); if (node && app.at.seq !== undefined) app.node = node; }
		look.draw();
		views[next].place();
		if (next === "entries" && stale) { stale = false; views.entries.update(); }
	}
	addEventListener("hashchange", route);
	addEventListener("popstate", route);

	// --- filters and search ---
	const text = h("input", { type: "search", placeholder: "Search  ( / )", label: "Search", oninput: () => { app.filter.text = text.value; refilter(); }, onkeydown: (e) => {
		if (e.key === "Enter") { go("entries"); views.entries.everywhere(); }
		if (e.key === "Escape") { text.value = app.filter.text = ""; refilter(); text.blur(); }
	} });
	let waiting, stale;
	const refilter = () => { clearTimeout(waiting); waiting = setTimeout(() => { stale = app.view !== "entries"; views[app.view].update(); }, 120); };
	const chosen = (name, any, words) => h("select", { label: any.replace("Any ", ""), "data-filter": name, onchange: (e) => { app.filter[name] = e.target.value; refilter(); } }, h("option", { value: "" }, any), words.map((word) => h("option", { value: word }, short(word, 60))));
	const nodes = nodesOf(page.tree), each = (of) => [...new Set(nodes.flatMap(of).filter(Boolean).map(String))].sort().slice(0, 500);
	const filters = h("div.filters", { role: "search" }, text, chosen("status", "Any status", ["not completed", ...each((n) => [n.status])]), chosen("tool", "Any tool", each((n) => [n.tool, ...(n.tools).map((use) => use.tool)])), chosen("agent", "Any agent", each((n) => [n.agent || n.program])));

	// --- the badge ---
	const verdict = h("details.verdict");
	function judge() {
		const now = app.checked, told = app.page.verdict, found = [...(now?.problems ?? []), ...told.problems.map((p) => ({ ...p, seq: p.line - 1 }))];
		const where = (p) => `entry ${p.seq} of ${short(p.name ?? app.nameOf(p.log), 60)}`;
		const place = (p) => h("li", p.log === null ? short(p.name, 120) : h("a", { href: `#/log/${p.log}/${p.seq}/entries` }, where(p)), `: ${short(p.what, 300)}`);
		const broken = now?.problems.length || !told.intact, checking = !now || now.state === "checking", unable = now?.state === "unable";
		const intact = broken ? ["bad", `not intact: ${where(found[0])}`] : unable ? ["warn", "not checked here"] : checking ? ["plain", `checking … ${now?.all ? Math.floor((now.done / now.all) * 100) : 0} %`] : ["good", "intact"];
		const isComplete = told.complete !== false && !(now?.open?.length), complete = broken && told.complete === null ? ["warn", "complete: cannot be said"] : isComplete ? ["good", "complete"] : ["warn", "not complete"];
		const chip = ([tone, word], name) => h("span", { class: `chip ${tone}`, "data-answer": name }, h("span", { hush: true }, { good: "✓", bad: "✕", warn: "!" }[tone] ?? "·"), " ", word);
		const wasOpen = verdict.open;
		verdict.replaceChildren(h("summary", chip(intact, "intact"), chip(complete, "complete"), chip(["plain", "not signed"], "authentic"), chip(["plain", `guarantee: ${app.page.guarantee}`], "guarantee")),
			h("div.panel", h("p", unable ? `Not checked here: ${now.why}. Whoever wrote this page was told: ${told.intact ? "intact" : "not intact"}.` : checking ? "This page is checking every line of its logs." : `This page has checked ${count(now.done, "entry", "entries")} in ${count(store.logs.size, "log")} itself: each line's hash over the line before it, and both ends of each child.`),
				h("ul", found.slice(0, 40).map(place), found.length > 40 && h("li", `and ${number(found.length - 40)} more`)),
				h("p", isComplete ? "Complete: every log is sealed, or its parent holds its head." : `Not complete: ${now?.open?.length ? now.open.slice(0, 5).map((id) => app.nameOf(id)).join(", ") : "a log"} has no end that anything holds.`),
				h("p", "Authentic: nothing is signed. Who can write the logs can write others that are intact; only a head kept elsewhere tells. The head of the root is ", h("code.head", store.logs.get(0)?.said.head ?? "–"), "."),
				h("p", app.page.guarantee === "matched" ? "Guarantee “matched”: a command was watched; replay matches its requests." : "Guarantee “kernel”: the program ran on the kernel; replay executes it again and names each divergence.")));
		verdict.open = wasOpen;
	}
	let round = 0;
	async function recheck() {
		const mine = ++round;
		let shown = 0;
		const done = await check(store, (now) => { if (mine === round && performance.now() - shown > 200) { shown = performance.now(); app.checked = now; judge(); } });
		if (mine === round) { app.checked = done; judge(); if (done.problems.length) look.draw(); }
	}

	// --- the head ---
	const sums = h("p.sums"), title = h("h1");
	function head() {
		const { tree: root, totals: all } = app.page, fact = (...words) => h("span.fact", words);
		const { completed, ...others } = all.statuses, bad = Object.entries(others).map(([status, n]) => `${number(n)} ${status.replace("_", " ")}`).join(", ");
		title.replaceChildren(short(app.page.title, 200));
		sums.replaceChildren(fact(badge(root.status)),
			all.subagents ? fact(`${count(all.subagents, root.guarantee ? "conversation" : "subagent")}: `, completed ? `${number(completed)} completed` : "", completed && bad ? ", " : "", bad ? h("button", { class: "bad link", title: "Show the next one (f)", onclick: () => fault(1) }, bad) : null) : "",
			all.tools ? fact(count(all.tools, "tool call"), all.tools_failed ? ` (${number(all.tools_failed)} failed)` : "") : "",
			all.requests ? fact(count(all.requests, "request"), `, ${spent(root.usage)}`, all.subagents && root.own_usage.requests ? `, of these its own: ${spent(root.own_usage)}` : "") : "",
			typeof root.duration_ms === "number" ? fact(duration(root.duration_ms * 1000)) : "",
			app.page.content === false ? fact("content left out") : "", given.live ? h("span.fact.live", "following") : "");
	}
	/** To the next run that did not complete. */
	function fault(by) {
		const all = nodesOf(app.page.tree), bad = all.filter((node, i) => i && node.status !== "completed");
		if (!bad.length) return;
		const at = bad.indexOf(app.node), node = bad[at < 0 ? (by > 0 ? 0 : bad.length - 1) : (at + by + bad.length) % bad.length];
		views.tree.reveal(node);
		if (app.view !== "tree") go("tree");
		app.choose(node);
		views.tree.place();
	}
	const theme = h("button", { class: "theme", title: "Light or dark (t)", onclick: () => turn() }, "Light / dark");
	function turn() { const at = document.documentElement.dataset, dark = at.theme ? at.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches; at.theme = dark ? "light" : "dark"; try { localStorage.setItem("refold-theme", dark ? "light" : "dark"); } catch { /* a page from disk may have no storage */ } }
	const help = h("dialog.help", { label: "Keys" }, h("h2", "Keys"), h("dl", KEYS.map(([key, does]) => [h("dt", key), h("dd", does)])), h("button", { onclick: () => help.close() }, "Close"));

	addEventListener("keydown", (e) => {
		const on = e.target;
		if (e.ctrlKey || e.metaKey || e.altKey || help.open || (/INPUT|SELECT/.test(on.tagName) && e.key !== "Escape")) return;
		const log = store.logs.get(app.at.log), seq = app.at.seq ?? -1, names = [...tabs.children].map((tab) => tab.getAttribute("data-view") ?? "");
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

	document.getElementById("app")?.replaceWith(h("div.app", { id: "app" }, h("a.skip", { href: "#main", onclick: (e) => { e.preventDefault(); (views[app.view].list?.element ?? panel).focus(); } }, "To the content"),
		h("header.top", h("div.titles", title, given.live ? h("a", { href: `?${new URLSearchParams({ token: given.token })}`, class: "quiet" }, "All runs") : null, verdict, h("span.buttons", h("button", { title: "Keys (?)", onclick: () => help.showModal() }, "Keys"), theme)), sums, (page.divergences ?? []).slice(0, 20).map((each) => h("section.pinned.bad", { label: "Where its replay diverged" }, h("h3", "Its replay diverged", each.log === null ? "" : [": ", h("a", { href: `#/log/${each.log}/${each.seq ?? 0}/entries` }, `${app.nameOf(each.log)}, entry ${each.seq ?? 0}`)]), folded(each.text))), h("div.tools", tabs, filters)), panel, look.element, help));
	head();
	judge();
	route();
	let told = false;
	store.heard.add(() => { if (told) return; told = true; setTimeout(() => { told = false; news(); }, 100); });
	const news = () => { views[app.view].grown?.(); if (app.at.seq !== undefined) look.draw(); };
	store.load().then(recheck);
	if (given.live) {
		const source = new EventSource(query("events", { bytes: [...store.logs.values()].reduce((sum, log) => sum + log.said.bytes, 0) }));
		source.onmessage = async (e) => {
			const fresh = JSON.parse(e.data).page;
			if (!fresh) return;
			app.page = fresh;
			store.take(fresh);
			Object.assign(app, lookups(store));
			head();
			for (const log of store.logs.values()) log.ended = false;
			await store.load();
			views[app.view].update();
			recheck();
		};
	}
	return app;
}

/** What the views ask of the document. */
function lookups(store) {
	const ofLog = new Map(), ofScope = new Map(), children = new Map();
	for (const root of [store.page.tree, store.page.diff?.other?.tree]) for (const node of nodesOf(root)) {
		if (node.scope) ofScope.set(`${node.log}:${node.scope}`, node);
		else if (typeof node.log === "number" && !ofLog.has(node.log)) ofLog.set(node.log, node);
	}
	for (const log of store.logs.values()) if (log.said.parent) children.set(`${log.said.parent.log}:${log.said.parent.seq}`, log.id);
	const stems = [store.page, store.page.diff?.other].map((run) => `${String(run?.logs?.[0]?.name ?? "").replace(/\.jsonl$/, "")}.`);
	return {
		nodeOf: (log, scope = null) => (scope && ofScope.get(`${log}:${scope}`)) || ofLog.get(log) || null,
		childOf: (log, seq) => children.get(`${log}:${seq}`) ?? null,
		nameOf(log, small = false) {
			const node = ofLog.get(log), name = String(store.logs.get(log)?.said.name ?? `log ${log}`), last = name.replace(/\.jsonl$/, "").slice(stems[log < (store.page.logs?.length ?? 0) ? 0 : 1].length);
			return small ? (node?.number ? `#${last}` : "root") : node ? `${short(node.name, 60)}${node.number ? ` #${last}` : ""}` : name;
		},
		blobOf: (digest) => blob(store, digest),
	};
}

/** A blob as an image where it is one, else as text. */
function blob(store, digest) {
	const box = h("div", h("span.quiet", "reading …"));
	store.blob(digest).then((bytes) => box.replaceChildren(bytes ? picture(bytes) ?? folded(new TextDecoder().decode(bytes)) : h("span.quiet", `blob ${short(digest, 12)}: not in this page`)), () => box.replaceChildren(h("span.quiet", "this blob cannot be unpacked")));
	return box;
}

/** The document in the page: gzipped in a file, plain from the server. */
async function boot() {
	try { const kept = localStorage.getItem("refold-theme"); if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept; } catch { /* a page from disk may have no storage */ }
	const block = document.getElementById("page"), parts = [];
	if (block?.getAttribute("type") === "application/json") given = JSON.parse(block.textContent ?? "{}");
	else if (block) { await unpack([block], (part) => parts.push(part)); given = JSON.parse(await new Blob(parts).text()); }
	if (!given.live) start(given);
	else if (!given.log) document.getElementById("app")?.replaceWith(runs(query));
	else start(await (await fetch(query("page"))).json());
}
boot().catch((error) => document.getElementById("app")?.append(h("p.none", `This page cannot be shown: ${error instanceof Error ? error.message : error}`)));
