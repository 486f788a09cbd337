/** How two runs differ: what differed first on the left, its words on the right. */
import { h } from "./dom.js";
import { textOf } from "./model.js";
import { Copy, Folded, highlighted } from "./parts.js";
import { Head } from "./run.js";
import { set, state } from "./store.js";
import { count, duration, money, number, quoted, short, words } from "./words.js";

/** The names and forms of sums that are not plain numbers. @type {Record<string, [string, (value: any) => string]>} */
const FORMS = { cost_usd_micros: ["cost", money], time_us: ["time", (us) => duration(us) || "–"] };

/** Of categories that have no plain name. @type {Record<string, string>} */
const WHAT = {
	only_in_a: "only in this run",
	only_in_b: "only in the other run",
	header: "program, rules or tools",
};
/** @param {Cause} cause */
const whatOf = ({ what }) => WHAT[what] ?? words(what);

/** One side of a difference: its words, with those marked that the other lacks.
 * @param {{ name: string, value: any, parts: Parts, sign: string }} props */
function Side({ name, value, parts, sign }) {
	const tag = sign === "-" ? "del" : "ins";
	const own = Array.isArray(parts) && parts.filter(([how]) => how === " " || how === sign);
	return h(
		"div.side",
		h("header.row", h("h3.grow", name), h(Copy, { text: textOf(value), what: "this side" })),
		value === undefined
			? h("p.soft", "not there")
			: own
				? h(
						"pre.out",
						own.map(([how, text], key) => h(how === " " ? "span" : tag, { key }, highlighted(text))),
					)
				: h(Folded, { text: textOf(value) }),
	);
}

/** The entry of a call; of one that ended differently, its last.
 * @param {{ entry: [string, number] | null | undefined, isEnd: boolean, word: string }} props */
function EntryButton({ entry, isEnd, word }) {
	if (!entry) return null;
	const [log, seq] = entry;
	const open = () =>
		set({ at: { log, seq: isEnd ? state.store.logs.get(log).endOf(seq) : seq, tab: "" } }, true);
	return h("button.small", { onClick: open }, word);
}

/** @param {{ cause: Cause, other: string }} props */
function CauseView({ cause, other }) {
	const [here, there] = cause.entries;
	const isEnd = cause.what === "result" || cause.what === "retry";
	return h(
		"article",
		h(
			"div.row",
			h("h2.grow", `${cause.where}: ${whatOf(cause)}`),
			h(EntryButton, { entry: here, isEnd, word: "Log: this run" }),
			h(EntryButton, { entry: there, isEnd, word: "Log: the other" }),
		),
		cause.differences.map(({ pointer, before, after, parts }, key) =>
			h(
				"div",
				{ key },
				h("p.soft.mono", pointer || "all of it"),
				h(
					"div.sides",
					h(Side, { name: "This run", value: before, parts, sign: "-" }),
					h(Side, { name: other, value: after, parts, sign: "+" }),
				),
			),
		),
		cause.follows > 0 && h("p.soft", `${count(cause.follows, "difference")} after it may follow from it.`),
		cause.alike.length > 0 &&
			h(
				"details",
				h("summary", `The same in ${count(cause.alike.length, "more place")}`),
				h(
					"ul",
					cause.alike.slice(0, 200).map((each, key) => h("li", { key }, short(each))),
				),
			),
	);
}

/** @param {{ run: Run, fault: (by: number) => void, drawer: any }} props */
export function DifferencePage({ run, fault, drawer }) {
	const diff = /** @type {Diff} */ (run.diff);
	const at = Math.min(state.at.cause, Math.max(0, diff.causes.length - 1));
	const found = `${count(diff.causes.length, "cause")} of ${count(diff.count, "difference")}`;
	const title = diff.error ? "They cannot be compared" : diff.identical ? "No difference" : found;
	const command = `refold diff ${quoted(run.path)} ${quoted(diff.other.path)}`;
	const [one, other] =
		run.name === diff.other.name ? [run.path, diff.other.path] : [run.name, diff.other.name];
	const side = run.name === diff.other.name ? "The other run" : diff.other.name;
	const sums = Object.entries(diff.table).map(([name, pair]) => {
		const [label, form] = FORMS[name] ?? [words(name), number];
		const [a, b] = pair.map(form);
		return h(
			"span",
			{ key: name },
			h("span.soft", `${label} `),
			h("b", a),
			a === b ? "" : [" → ", h("b", b)],
		);
	});
	return [
		h(Head, { run, fault, key: "head" }),
		h(
			"section.compared",
			{ key: "sums", label: "Sums" },
			h(
				"div.row",
				h("h2", `${title}: ${one} ↔ ${other}`),
				h("span.grow"),
				h(Copy, { text: command, what: "the command that compares them", label: "Command" }),
			),
			diff.error && h("p.bad", diff.error),
			h("p.facts.sums", sums),
			diff.notes.slice(0, 20).map((note, key) => h("p.soft", { key }, short(note, 300))),
		),
		diff.causes.length
			? h(
					"div.body",
					{ key: "body" },
					h(
						"nav.causes",
						{ label: "What differed first" },
						h("p.soft", "In the order in which they arose"),
						diff.causes
							.slice(0, 500)
							.map((cause, i) =>
								h(
									"button.cause",
									{ key: i, "aria-current": String(i === at), onClick: () => set({ at: { cause: i } }) },
									h("b", cause.where),
									h("span", whatOf(cause)),
									cause.alike.length > 0 &&
										h("span.soft", `the same in ${count(cause.alike.length, "more place")}`),
									cause.follows > 0 && h("span.soft", `${count(cause.follows, "difference")} may follow`),
								),
							),
						diff.causes.length > 500 &&
							h("p.soft", `and ${number(diff.causes.length - 500)} more: ${command}`),
					),
					h(
						"main.agent",
						{ id: "main", tabindex: "-1" },
						h(CauseView, { cause: diff.causes[at], other: side, key: at }),
					),
					drawer,
				)
			: h(
					"main.none",
					{ id: "main", tabindex: "-1", key: "body" },
					diff.error ? "" : "Both runs did the same.",
				),
	];
}
