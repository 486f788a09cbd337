/** Small parts of every view: icons, copies, Markdown, values. */
import { Component } from "./vendor/preact.js";
import { lexer } from "./vendor/marked.js";
import { h } from "./dom.js";
import { isBad, isRed, unreadOf } from "./model.js";
import { set, state } from "./store.js";
import { brief, count, fileText, number, short, split, words } from "./words.js";

const PATHS = {
	check: "M3 8.5l3.2 3L13 4.5",
	cross: "M4 4l8 8M12 4l-8 8",
	clock: "M8 4.5V8l2.5 1.5M8 14A6 6 0 108 2a6 6 0 000 12",
	ask: "M6 6a2 2 0 113 1.7c-.7.4-1 .8-1 1.6M8 12v.2",
	broken: "M2 8h3.5l1.5-3 2 6L10.5 8H14",
	dots: "M4 8h.1M8 8h.1M12 8h.1",
	agent: "M8 3v2M4 5h8v7H4zM6.5 8v1M9.5 8v1",
	copy: "M6 6h7v7H6zM3 10V3h7",
	link: "M7 9a2.5 2.5 0 003.5 0l2-2A2.5 2.5 0 009 3.5l-.7.7M9 7a2.5 2.5 0 00-3.5 0l-2 2A2.5 2.5 0 007 12.5l.7-.7",
	right: "M6 4l4 4-4 4",
	log: "M3 4h10M3 8h10M3 12h6",
	shield: "M8 2l5 2v4c0 3-2 5-5 6-3-1-5-3-5-6V4zM5.7 8l1.6 1.6L10.5 6.5",
	theme: "M8 2a6 6 0 100 12A6 6 0 008 2zM8 2v12",
	key: "M2 4h12v8H2zM5 7h.1M8 7h.1M11 7h.1M5 10h6",
};
/** @type {Record<string, string>} */
const ICONS = {
  completed: "check", ok: "check", running: "dots", waits_for_you: "ask", open: "dots", broke_off: "broken",
  unfinished: "broken", timed_out: "clock", late: "clock", cancelled: "cross",
}; // prettier-ignore

/** @param {{ name: string, tone?: string }} props */
export const Icon = ({ name, tone = "" }) =>
	h(
		"svg",
		{ class: `i ${tone}`, viewBox: "0 0 16 16", hush: "true" },
		h("path", { d: /** @type {any} */ (PATHS)[name] }),
	);

/** @param {string} status */
export const tone = (status) =>
	isBad(status)
		? "bad"
		: status === "completed" || status === "ok"
			? "good"
			: status === "running" || !status
				? "plain"
				: "warn";

/** @param {{ status: string }} props */
export const Status = ({ status }) =>
	h(
		"span",
		{ class: `pill ${tone(status)}` },
		h(Icon, { name: ICONS[status] ?? "cross" }),
		h("span.cut", words(status)),
	);

/** @param {{ status: string, warn?: boolean }} props */
export const Sign = ({ status, warn = false }) =>
	h(
		"span.sign",
		{ title: words(status) },
		h(Icon, { name: ICONS[status] ?? "cross", tone: warn ? "warn" : tone(status) }),
		h("span.unseen", words(status)),
	);

/** How an agent ended; a warning if it completed although something failed or is lost. @param {Agent} agent */
export function Ended(agent) {
	const isDoubtful = isRed(agent) || unreadOf(agent) !== "";
	return h(Sign, { status: agent.status, warn: agent.status === "completed" && isDoubtful });
}

/** A button of an icon alone, or of a sign. @param {Props} props */
export const Tool = ({ title, icon, sign, act, ...given }) =>
	h(
		"button.bare",
		{ ...given, title, label: title, onClick: (e) => (e.preventDefault(), e.stopPropagation(), act()) },
		icon ? h(Icon, { name: icon }) : sign,
	);

/** A button that shows more. @param {string} word @param {() => void} act */
export const more = (word, act) => h("button.more", { onClick: act }, word);

/** A list of values to choose from, each with its words.
 * @param {Props & { options: [string, string][], choose: (value: string) => void }} props */
export const Choice = ({ options, choose, ...given }) =>
	h(
		"select",
		{ ...given, onChange: (e) => choose(e.target.value) },
		options.map(([value, word]) =>
			h("option", { value, key: value, selected: value === given.value }, short(word, 60)),
		),
	);

/** What is searched. @param {{ label: string }} props */
export const Searched = ({ label }) =>
	h("input", {
		type: "search",
		placeholder: `${label}  ( / )`,
		label,
		value: state.query.text,
		onInput: (e) => set({ query: { text: e.target.value } }),
	});

/** A button that copies a text; with `label`, in words. */
export class Copy extends Component {
	state = { done: "" };
	async copy() {
		const { text } = this.props;
		const whole = typeof text === "function" ? await text() : text;
		try {
			await navigator.clipboard.writeText(whole);
		} catch {
			const box = document.createElement("textarea");
			box.value = whole;
			document.body.append(box);
			box.select();
			document.execCommand("copy");
			box.remove();
		}
		document.body.dataset.copied = whole.slice(0, 10_000);
		this.setState({ done: "Copied" });
		setTimeout(() => this.setState({ done: "" }), 1500);
	}
	/** @param {any} props @param {any} now */
	render({ what, label = "", icon = "copy" }, now) {
		const title = now.done || `Copy ${what}`;
		/** @param {any} e */
		const act = (e) => {
			e.preventDefault();
			e.stopPropagation();
			this.copy();
		};
		return h(
			label ? "button.copy" : "button.copy.bare",
			{ title, label: label ? undefined : title, "data-copy": what, onClick: act },
			h(Icon, { name: now.done ? "check" : icon }),
			label ? now.done || label : null,
		);
	}
}

/** Whether a text has what is searched. @param {string} text */
export const isFound = (text) =>
	state.query.text !== "" && text.toLowerCase().includes(state.query.text.toLowerCase());

/** Text with what is searched marked. @param {string} text */
export const highlighted = (text) =>
	state.query.text
		? split(text, state.query.text).map(([part, isHit]) => (isHit ? h("mark", part) : part))
		: text;

/** What can be copied, with the button for it.
 * @param {any} shown @param {string} what @param {string | (() => string)} text */
export const copied = (shown, what, text) => h("div.copied", shown, h(Copy, { text, what }));

/** @type {Record<string, string>} */
const signed = { "+": "ins", "-": "del" };

/** A diff, its lines marked; of edits, the text that went and the one that came.
 * @param {string[]} parts */
export const Diff = (parts) =>
	h(
		"pre.out.diff",
		parts.map((text, key) =>
			h(
				signed[/^(\+\+\+|---) (.\/|\/dev)/.test(text) ? "" : text[0]] ?? "span",
				{ key },
				highlighted(text),
				"\n",
			),
		),
	);

/** The changes of files that a page has: each in a line, and its diff.
 * @param {Run["changes"]} changes */
export const Changes = (changes) =>
	changes.map((each, key) =>
		h(
			"div",
			{ key },
			h("p.file", highlighted(fileText(each))),
			each.diff && Diff(each.diff.slice(0, 50_000).split("\n")),
		),
	);

/** A text of any length: what is beyond the fold comes on demand. */
export class Folded extends Component {
	state = { most: this.props.fold ?? 3000 };
	/** @param {any} props @param {any} now */
	render({ text, kind = "pre.out" }, now) {
		const found = state.query.text ? text.toLowerCase().indexOf(state.query.text.toLowerCase()) : -1;
		const most = Math.max(now.most, found < 0 ? 0 : found + 500);
		const rest = text.length - most;
		return [
			h(kind, highlighted(text.slice(0, most))),
			rest > 0 &&
				more(`Show more (${number(rest)} characters)`, () => this.setState({ most: most + 50_000 })),
		];
	}
}

/** @param {Token[]} tokens @returns {any} */
const inline = (tokens = []) =>
	tokens.map((t) => {
		if (t.type === "strong") return h("strong", inline(t.tokens));
		if (t.type === "em") return h("em", inline(t.tokens));
		if (t.type === "del") return h("s", inline(t.tokens));
		if (t.type === "codespan") return h("code", highlighted(t.text));
		if (t.type === "br") return h("br", {});
		// A link would lead out of the page, and an image into it: both stay text.
		if (t.type === "link" && t.text !== t.href) return [inline(t.tokens), h("span.soft", ` (${t.href})`)];
		if (t.type === "image") return highlighted(t.raw);
		return t.tokens
			? inline(t.tokens)
			: highlighted(t.type === "escape" || t.type === "text" ? t.text : t.raw);
	});

/** A block; one inside another has the direction of that. @param {Token} t @param {string} [dir] @returns {any} */
function block(t, dir) {
	const inside = (/** @type {Token} */ of) => of.tokens.map((each) => block(each));
	if (t.type === "space" || t.type === "def") return null;
	if (t.type === "heading") return h("p.heading", { class: `h${t.depth}`, dir }, inline(t.tokens));
	if (t.type === "list")
		return h(
			t.ordered ? "ol" : "ul",
			{ start: t.start || undefined, dir },
			t.items.map((each) => h("li", inside(each))),
		);
	if (t.type === "code") return copied(h("pre.out", highlighted(t.text)), "this code", t.text);
	if (t.type === "blockquote") return h("blockquote", { dir }, inside(t));
	if (t.type === "hr") return h("hr", {});
	if (t.type === "table") {
		const cells = t.rows.map((row) => row.map((cell) => inline(cell.tokens)));
		return Table({ dir, heads: t.header.map((cell) => inline(cell.tokens)), rows: cells });
	}
	return h("p", { dir }, t.tokens ? inline(t.tokens) : highlighted(t.raw));
}

/** @param {{ heads: any[], rows: any[][], dir?: string }} props */
export const Table = ({ heads, rows, dir }) =>
	h(
		"div.wide",
		{ tabindex: "0", dir },
		h(
			"table",
			h("thead", h("tr", ...heads.map((head) => h("th", { scope: "col" }, head)))),
			h("tbody", ...rows.map((row) => h("tr", ...row.map((cell) => h("td", cell))))),
		),
	);

const MARKDOWN_MAX = 100_000;
/** @type {Map<string, any[]>} */
const lexed = new Map();

/** Markdown as elements: nothing becomes markup. @param {{ text: string }} props */
export function Markdown({ text }) {
	if (text.length > MARKDOWN_MAX) return h(Folded, { text });
	let tokens = lexed.get(text);
	if (!tokens) {
		if (lexed.size > 500) lexed.clear();
		tokens = lexer(text);
		lexed.set(text, tokens);
	}
	return h(
		"div.md",
		tokens.map((each) => block(each, "auto")),
	);
}

/** Bytes, or their base64, as an image where they are one. @param {string | Uint8Array} given */
function picture(given) {
	let bytes = typeof given === "string" ? new TextEncoder().encode(given) : given;
	/** @param {number} n */
	const latin = (n) => String.fromCharCode(...bytes.subarray(0, n));
	/** @param {string} text */
	const typeOf = (text) =>
		/** @type {Record<string, string>} */ ({ iVBO: "png", "/9j/": "jpeg", R0lG: "gif", UklG: "webp" })[
			text.slice(0, 4)
		];
	const lead = /^(?:data:image\/\w+;base64,)?/.exec(latin(64))?.[0].length ?? 0;
	try {
		if (typeOf(latin(64).slice(lead))) {
			const text = new TextDecoder().decode(bytes.subarray(lead));
			bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
		}
	} catch {
		return null;
	}
	const type = typeOf(btoa(latin(12)));
	if (!type) return null;
	const src = URL.createObjectURL(new Blob([/** @type {any} */ (bytes)], { type: `image/${type}` }));
	return h("img", { src, alt: `image from the log, ${number(bytes.length)} bytes` });
}

/** A large text that lies beside the log: an image where it is one; with `only`, nothing else. */
export class Large extends Component {
	/** @type {{ shown: any }} */
	state = { shown: null };
	componentDidMount() {
		const { digest, size, only } = this.props;
		/** @param {any} shown */
		const show = (shown) => this.setState({ shown });
		state.store.blob(digest).then(
			(/** @type {Uint8Array | null} */ bytes) =>
				show(
					bytes
						? (picture(bytes) ?? (only ? "" : h(Folded, { text: new TextDecoder().decode(bytes) })))
						: h("span.soft", `large text ${digest.slice(0, 12)}, ${number(size)} bytes: not on this page`),
				),
			() => show(h("span.soft", "this large text cannot be unpacked")),
		);
	}
	/** @param {any} _ @param {any} now */
	render(_, now) {
		return h("div", now.shown ?? h("span.soft", "reading …"));
	}
}

/** JSON as a tree that is built as it is opened: `open` levels at once. */
export class Value extends Component {
	state = { most: 20, isOpen: (this.props.open ?? 2) > 0 };
	/** @param {any} props @param {any} now */
	render({ value, open = 2 }, now) {
		if (typeof value === "string") {
			const isLong = value.length > 120 || value.includes("\n");
			return isLong
				? h(Folded, { text: value, fold: 800 })
				: h("span.string", highlighted(JSON.stringify(value)));
		}
		if (value === null || typeof value !== "object") return h("span.atom", String(value));
		if (typeof value.$blob === "string")
			return h(Large, { digest: value.$blob, size: value.bytes, key: value.$blob });
		const keys = Object.keys(value);
		const isList = Array.isArray(value);
		if (!keys.length) return h("span.atom", isList ? "[]" : "{}");
		const members = () =>
			h(
				"div.members",
				keys
					.slice(0, now.most)
					.map((key) =>
						h(
							"div.member",
							{ key },
							h("span.key", short(key, 200)),
							h("div.value", h(Value, { value: value[key], open: open - 1 })),
						),
					),
				keys.length > now.most &&
					more(`Show more (${number(keys.length - now.most)})`, () =>
						this.setState({ most: now.most + 100 }),
					),
			);
		if (open > 0) return members();
		/** @param {any} e */
		const toggle = (e) => this.setState({ isOpen: e.currentTarget.open });
		return h(
			"details",
			{ onToggle: toggle },
			h("summary", isList ? `[ ${count(keys.length, "item")} ]` : `{ ${short(brief(value, 90), 90)} }`),
			now.isOpen && members(),
		);
	}
}
