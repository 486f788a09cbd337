/** How two runs differ: what differed first on the left, its words on the right. */
import { h } from "./dom.js";
import { Copy, Folded, highlighted } from "./parts.js";
import { Head } from "./run.js";
import { set, state } from "./store.js";
import { count, duration, money, number, short, words } from "./words.js";

/** The sums of two runs. @type {Record<string, string>} */
const LABELS = {
	runs: "Runs",
	tool_calls: "Tool calls",
	requests: "Model requests",
	input_tokens: "Tokens in",
	output_tokens: "Tokens out",
	cost_usd_micros: "Cost",
	time_us: "Time",
};
/** @type {Record<string, (value: any) => string>} */
const FORMS = { cost_usd_micros: money, time_us: (us) => duration(us) || "–" };

/** @param {any} value */
const textOf = (value) =>
	value?.absent === true ? "" : typeof value === "string" ? value : JSON.stringify(value, null, 1);

/** One side of a difference: its words, with those marked that the other lacks.
 * @param {{ name: string, value: any, parts: [string, string][] | null, sign: string }} props */
function Side({ name, value, parts, sign }) {
	const tag = sign === "-" ? "del" : "ins";
	const own = parts?.filter(([how]) => how === " " || how === sign);
	return h(
		"div.side",
		h("header.row", h("h3.grow", name), h(Copy, { text: textOf(value), what: "this side" })),
		value?.absent === true
			? h("p.soft", "not there")
			: own
				? h(
						"pre.out",
						{ tabindex: "0" },
						own.map(([how, text], key) => h(how === " " ? "span" : tag, { key }, highlighted(text))),
					)
				: h(Folded, { text: textOf(value) }),
	);
}

/** @param {{ entry: any, word: string }} props */
const EntryButton = ({ entry, word }) =>
	entry &&
	h("button.small", { onClick: () => set({ at: { log: entry[0], seq: entry[1], tab: "" } }, true) }, word);

/** @param {{ cause: Cause, diff: Diff }} props */
function CauseView({ cause, diff }) {
	const only = cause.a ? "Only this run has it." : "Only the other run has it.";
	return h(
		"article",
		h(
			"div.row",
			h("h2.grow", `${cause.where}: ${cause.what}`),
			h(EntryButton, { entry: cause.a, word: "Log: this run" }),
			h(EntryButton, { entry: cause.b, word: "Log: the other" }),
		),
		cause.differences.map(([pointer, was, now, parts], key) =>
			h(
				"div",
				{ key },
				h("p.soft.mono", pointer || "all of it"),
				h(
					"div.sides",
					h(Side, { name: "This run", value: was, parts, sign: "-" }),
					h(Side, { name: diff.other.name, value: now, parts, sign: "+" }),
				),
			),
		),
		!cause.differences.length && (!cause.a || !cause.b) && h("p.soft", only),
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
	const command = `refold diff ${run.path} ${diff.other.path}`;
	const [one, other] =
		run.name === diff.other.name ? [run.path, diff.other.path] : [run.name, diff.other.name];
	const sums = Object.entries(diff.table).map(([name, pair]) => {
		const [a, b] = pair.map(FORMS[name] ?? number);
		return h(
			"span",
			{ key: name },
			h("span.soft", `${LABELS[name] ?? words(name)} `),
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
		h(
			"div.body.two",
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
							h("span", cause.what),
							cause.alike.length > 0 &&
								h("span.soft", `the same in ${count(cause.alike.length, "more place")}`),
							cause.follows > 0 && h("span.soft", `${count(cause.follows, "difference")} may follow`),
						),
					),
				diff.causes.length > 500 && h("p.soft", `and ${number(diff.causes.length - 500)} more: ${command}`),
			),
			h(
				"main.agent",
				{ id: "main", tabindex: "-1" },
				diff.causes.length
					? h(CauseView, { cause: diff.causes[at], diff, key: at })
					: h("p.none", diff.error ? "" : "Nothing differs."),
			),
			drawer,
		),
	];
}
