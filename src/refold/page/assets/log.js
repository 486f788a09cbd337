/** The drawer "Log": the entries of a log, and of one its data, causes, state, line and hash. */
import { Component } from "./vendor/preact.js";
import { causeOf, ledTo, stateAt, statusOf, summary } from "./data.js";
import { List, h, pause } from "./dom.js";
import { isBad, textOf } from "./model.js";
import { Changes, Choice, Copy, Folded, Large, Status, Table, Tool, Value, copied, more } from "./parts.js";
import { logName } from "./run.js";
import { set, state } from "./store.js";
import { count, duration, number, quoted, short } from "./words.js";

/** @param {string} log @param {number} seq */
function openEntry(log, seq, tab = state.at.tab === "state" ? "state" : "") {
	set({ at: { log, seq, tab } }, true);
}

/** @param {number | null} us */
const offset = (us) => (typeof us === "number" ? `+${duration(Math.max(0, us)) || "0"}` : "");

/** A link to an entry, with what it says. @param {any} props */
function EntryLink({ how, log, seq, since }) {
	const { store, run } = state;
	const e = store.entry(log, seq);
	const at = e && store.at(e);
	const before = since !== undefined && at !== null ? since - at : null;
	return h(
		"li",
		h(
			"a",
			{
				// With a search: a link to `#` alone counts as one that skips.
				href: `${location.search || "?"}#log=${encodeURIComponent(log)}&seq=${seq}`,
				onClick: (event) => (event.preventDefault(), openEntry(log, seq, "")),
			},
			h("span.how", how),
			h("span.kind", `${log === state.at.log ? "" : `${logName(run, log)} `}${seq} ${e?.kind ?? "…"}`),
			h("span.soft", offset(at), before ? `, ${duration(Math.abs(before))} before` : ""),
		),
		h("span.what", e ? short(summary(e), 160) : ""),
	);
}

/** What is read of the page when it is looked at. */
class Part extends Component {
	state = { read: /** @type {any} */ (null), most: 8 };
	/** @param {any} _props @param {any} _now @returns {any} */
	draw(_props, _now) {}
	componentDidMount() {
		this.look();
	}
	componentDidUpdate() {
		this.look();
	}
	async look() {
		const read = await state.store.part(this.props.name);
		if (read !== this.state.read) this.setState({ read });
	}
	/** @param {any} props @param {any} now */
	render(props, now) {
		return now.read ? this.draw(props, now) : h("p.soft", "reading …");
	}
}

/** What led to an entry, and what it led to. */
class Causes extends Part {
	/** @param {any} props @param {any} now */
	draw({ log, seq, entry }, now) {
		const links = now.read[log] ? now.read : (now.read.other ?? {});
		if (!links[log])
			return h("p.soft", "The causes are not on this page: ", h("code", `refold why LOG ${seq}`));
		const chain = [];
		/** @param {string} at */
		const beside = (at, since = undefined) =>
			(links.beside?.[at] ?? []).map((/** @type {[string, string, number]} */ [how, l, s]) =>
				h(EntryLink, { key: `${at}${how}${l}${s}`, how: `also ${how}`, log: l, seq: s, since }),
			);
		chain.push(beside(`${log}:${seq}`));
		let next = causeOf(links, log, seq);
		let since = state.store.at(entry);
		let n = 0;
		for (; next?.[1] && n < now.most; n++) {
			const [how, l, s] = next;
			chain.push(
				h(EntryLink, { key: `${l}${s}`, how, log: l, seq: s, since }),
				n ? null : beside(`${l}:${s}`),
			);
			since = state.store.at(state.store.entry(l, s));
			next = causeOf(links, l, s);
		}
		const led = ledTo(links, log, seq);
		return [
			h("h3", "Why"),
			n || chain.flat().length
				? h(
						"ol.chain",
						{ "data-chain": "why" },
						chain,
						next &&
							(next[1]
								? h(
										"li",
										more("Further back", () => this.setState({ most: now.most + 20 })),
									)
								: h("li.soft", `${next[0]}: in the log of its parent, which is not in this page`)),
					)
				: h("p.soft", "Nothing: this is the start of the run."),
			h("h3", "Led to"),
			led.length
				? h(
						"ol.chain",
						{ "data-chain": "led" },
						led.slice(0, 50).map(([how, l, s], key) => h(EntryLink, { key, how, log: l, seq: s })),
						led.length > 50 && h("li.soft", `and ${led.length - 50} more`),
					)
				: h("p.soft", "No later entry follows directly from this one."),
		];
	}
}

/** The state after an entry, and what the entry changed of it. */
class States extends Part {
	/** @param {any} props @param {any} now */
	draw({ log, seq }, now) {
		const rows = now.read[log];
		const ask = `refold show ${quoted(state.store.logs.get(log).facts.name)} --at ${seq}`;
		if (!rows || seq >= rows.length)
			return h(
				"p.soft",
				"The state after this entry is not on this page. Ask ",
				h("code", ask),
				h(Copy, { text: ask, what: "this command" }),
			);
		const { before, changed, after } = stateAt(rows, seq);
		/** @param {any} each */
		const value = (each) => (each === undefined ? h("span.soft", "–") : h(Value, { value: each, open: 0 }));
		return [
			h("h3", changed.length ? "What changed" : "Nothing changed"),
			changed.length > 0 &&
				h(Table, {
					key: `changed ${seq}`,
					heads: ["Where", "Before", "After"],
					rows: changed.map(([name, now]) => [name, value(before.get(name)), value(now)]),
				}),
			h("h3", "The state after it"),
			h("div.states", { key: seq }, h(Value, { value: Object.fromEntries(after), open: 1 })),
		];
	}
}

/** The large texts of an entry that may be images. @param {any} value @param {any[]} found @returns {any[]} */
function images(value, found = []) {
	for (const [name, each] of value && typeof value === "object" ? Object.entries(value) : []) {
		if (found.length < 8 && each?.$blob && /^(data|url)$/.test(name)) found.push(each);
		else if (found.length < 8) images(each, found);
	}
	return found;
}

/** @param {{ log: any, seq: number, tab: string }} props */
function EntryView({ log, seq, tab }) {
	const { store, run, checked } = state;
	const e = store.entry(log.id, seq);
	if (!e) return h("p.none", store.loaded ? `There is no entry ${seq} in this log.` : "Reading …");
	const status = statusOf(e);
	const bad = (checked?.problems ?? []).filter((each) => each.log === log.id && each.seq === seq);
	const wall = e.meta?.wall_us ? new Date(e.meta.wall_us / 1000) : null;
	const files = store.runs
		.flatMap((/** @type {any} */ each) => (each.logs[0].id === log.id ? each.changes : []))
		.filter((/** @type {any} */ each) => each.seq === seq || each.calls.includes(e.call));
	const line = () => log.text(seq);
	const known = e.meta
		? [wall ? wall.toISOString() : "", e.hash ? `hash ${e.hash}` : ""]
		: [e.hash ? `hash ${e.hash}` : ""];
	return [
		h(
			"div.row.entryhead",
			{ key: "head" },
			h("h2", e.kind),
			status ? h(Status, { status }) : null,
			h("span.grow"),
			e.damaged || e.left ? null : h(Copy, { text: line, what: "this line of the log", label: "Copy line" }),
		),
		h(
			"p.facts.soft",
			{ key: "facts" },
			h("span", `${logName(run, log.id)}, entry ${seq}`),
			e.call ? h("span", `call ${e.call}`) : null,
			h("span", offset(store.at(e))),
		),
		bad.map((each, key) => h("p.alarm", { key }, `Not intact: ${each.what}.`)),
		tab === "state"
			? h(States, { name: "states", log: log.id, seq, key: "state" })
			: h(
					"div",
					{ key: `${log.id}:${seq}` },
					e.left
						? h("p.soft", "Content was left out of this page.")
						: copied(h("div.data", h(Value, { value: e.data, open: 3 })), "the data", () => textOf(e.data)),
					files.length > 0 && h("div", h("h3", "Files"), Changes(files)),
					images(e.data).map((each) =>
						h(Large, { key: each.$blob, digest: each.$blob, size: each.bytes, only: true }),
					),
					h(Causes, { name: "links", log: log.id, seq, entry: e }),
					h(
						"details.raw",
						h("summary", "Line and hash"),
						known.filter(Boolean).map((each, key) => h("p.soft.mono", { key }, each)),
						e.left ? null : h(Folded, { text: line(), fold: 600 }),
					),
				),
	];
}

/** The entries of one log; of a query, those that hold its text. */
class Entries extends Component {
	state = { found: /** @type {number[] | null} */ (null), seen: 0, kind: "" };
	scan = 0;
	asked = "";
	componentDidMount() {
		this.look();
	}
	componentDidUpdate() {
		this.look();
	}
	/** Read what passes, a slice at a time. */
	async look() {
		const { log } = this.props;
		const { text, status } = state.query;
		const { kind } = this.state;
		const asked = JSON.stringify([log.id, log.lines, text, status, kind]);
		if (asked === this.asked) return;
		this.asked = asked;
		const mine = ++this.scan;
		if (!text && !kind && !status) {
			if (this.state.found) this.setState({ found: null });
			return;
		}
		const needle = text.toLowerCase();
		const inside = JSON.stringify(needle).slice(1, -1);
		const found = [];
		let until = performance.now() + 12;
		for (let seq = 0; seq < log.lines; seq++) {
			const line = needle ? log.text(seq).toLowerCase() : "";
			if (!needle || line.includes(needle) || line.includes(inside)) {
				const e = kind || status ? log.entry(seq) : null;
				const fits = !status || (status === "failed" ? isBad(statusOf(e)) : statusOf(e) === status);
				if (!e || (e.kind.startsWith(kind) && fits)) found.push(seq);
			}
			if (performance.now() < until) continue;
			await pause();
			if (mine !== this.scan) return;
			until = performance.now() + 12;
		}
		this.setState({ found, seen: log.lines });
	}
	/** @param {any} props @param {any} now */
	render({ log, seq }, now) {
		const { store, run } = state;
		const rows = now.found;
		/** @param {any} i */
		const at = (i) => (rows ? rows[i] : i);
		const n = rows ? rows.length : log.lines;
		return [
			h(
				"div.row.pick",
				h(Choice, {
					label: "Log",
					value: log.id,
					options: [...store.logs.keys()].slice(0, 5000).map((id) => [id, logName(run, id)]),
					choose: (id) => set({ at: { log: id, seq: 0 } }),
				}),
				h(Choice, {
					label: "Kind",
					value: now.kind,
					options: [["", "All kinds"], ...run.kinds.map((each) => [`${each}.`, each])],
					choose: (kind) => this.setState({ kind }),
				}),
				h(
					"span.soft",
					{ role: "status" },
					rows ? `${number(n)} of ${count(log.lines, "entry", "entries")}` : count(n, "entry", "entries"),
				),
			),
			h(List, {
				label: "Entries",
				name: "entry",
				none: store.loaded ? "No entry matches." : "Reading …",
				count: n,
				height: 26,
				active: rows ? rows.indexOf(seq) : (seq ?? -1),
				choose: (i) => openEntry(log.id, at(i), "entries"),
				row: (i) => {
					const e = log.entry(at(i));
					const status = e ? statusOf(e) : "";
					return {
						class: `entry ${e?.kind.split(".")[0] ?? ""}`,
						"data-seq": at(i),
						inside: e
							? [
									h("span.seq", String(at(i))),
									h("span.kind", { class: isBad(status) ? "bad" : "" }, e.kind),
									h("span.what.cut", short(summary(e), 160)),
								]
							: [h("span.soft", "…")],
					};
				},
			}),
		];
	}
}

/** The drawer; empty if nothing is looked at in it. */
export function Drawer() {
	const { store, at } = state;
	if (!at.log || !store) return null;
	const log = store.logs.get(at.log);
	const parent = log?.facts.parent;
	const close = () => set({ at: { log: "", seq: null, tab: "" } }, true);
	const seq = at.seq ?? 0;
	/** @param {string} title @param {string} sign @param {number} to */
	const step = (title, sign, to) =>
		h(Tool, {
			title,
			sign,
			disabled: !log || to < 0 || to >= log.lines,
			act: () => set({ at: { seq: to } }),
		});
	const tabs = /** @type {[string, string][]} */ ([
		["", "Entry"],
		["state", "State"],
		["entries", "Entries"],
	]);
	return h(
		"aside.drawer",
		{ label: "Log" },
		h(
			"header.row",
			tabs.map(([tab, word]) =>
				h(
					"button.tab",
					{
						key: tab,
						"data-tab": tab || "entry",
						"aria-current": at.tab === tab ? "page" : "false",
						onClick: () => set({ at: { tab } }),
					},
					word,
				),
			),
			h("span.grow"),
			step("Entry before (k)", "←", seq - 1),
			step("Entry after (j)", "→", seq + 1),
			parent &&
				h(Tool, { title: "Where it was started", sign: "↥", act: () => openEntry(parent.log, parent.seq) }),
			h(Tool, { title: "Close (Esc)", icon: "cross", act: close }),
		),
		!log
			? h("p.none", `There is no log ${short(at.log, 60)} on this page.`)
			: h(
					"div.inside",
					{ tabindex: "0", role: "region", label: "What the log says" },
					at.tab === "entries" ? h(Entries, { log, seq, key: log.id }) : null,
					h(EntryView, { log, seq, tab: at.tab }),
				),
	);
}

/** Go to what led to the entry in the drawer. */
export async function toCause() {
	const { at, store } = state;
	if (!at.log || at.seq === null) return;
	const links = await store.part("links");
	const own = links[at.log] ? links : (links.other ?? {});
	const cause = own[at.log] && causeOf(own, at.log, at.seq);
	if (cause?.[1]) openEntry(cause[1], cause[2], "");
}
