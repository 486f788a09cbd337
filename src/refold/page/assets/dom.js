/** Elements and text. Content is hostile: it becomes text nodes, and none of its characters hides or moves text. */

/** Controls but tab and newline, bidirectional and invisible characters, tags, lone surrogates. */
const HIDDEN = /[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}]|\p{Cs}/gu;
const SVG = new Set(["svg", "rect", "line", "path", "text", "g", "title"]);
const nothing = [null, undefined, false];

/** Text with escapes for what cannot be seen */
export const visible = (value) => String(value).replace(HIDDEN, (c) => {
	const code = c.codePointAt(0) ?? 0;
	return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : code < 65536 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\u{${code.toString(16)}}`;
});

/** Make an element: `h("p.quiet", { title: "…" }, …)`. Addresses lead inside the page, or to what it made itself. */
export function h(name, props, ...children) {
	const [tag, ...classes] = name.split("."), has = props && props.constructor === Object;
	const made = SVG.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
	if (classes.length) made.setAttribute("class", classes.join(" "));
	if (tag === "button") made.setAttribute("type", "button");
	for (const [word, value] of Object.entries(has ? props : {})) {
		const key = word === "label" ? "aria-label" : word === "hush" ? "aria-hidden" : word;
		if (nothing.includes(value)) continue;
		if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
		else if (key === "style") for (const [rule, set] of Object.entries(value)) made.style.setProperty(rule, set);
		else if ((key === "href" && !/^[#?]/.test(value)) || (key === "src" && !/^blob:/.test(value))) throw new Error(`no address: ${key}`);
		else if (key === "value") made.value = value;
		else made.setAttribute(key, value === true ? (word === "hush" ? "true" : "") : visible(value));
	}
	for (const child of (has ? children : [props, ...children]).flat(9)) if (!nothing.includes(child)) made.append(child instanceof Node ? child : document.createTextNode(visible(child)));
	return made;
}

/** How large texts begin, by digest; `ask` reads one. */
export const starts = { known: new Map(), ask(_digest) {} };

function start(blob, most) {
	if (!starts.known.has(blob.$blob)) starts.ask(blob.$blob);
	return starts.known.get(blob.$blob)?.slice(0, most) || `${number(blob.bytes)} bytes`;
}

export function short(value, most = 300) {
	const text = typeof value === "string" ? value : value === undefined ? "" : value?.$blob ? start(value, most + 1) : brief(value, most);
	return text.length > most ? `${text.slice(0, most)}…` : text;
}

/** JSON on one line, made no longer than `most` needs: values of 10 MB stay where they are. */
function brief(value, most, depth = 0) {
	if (typeof value === "string") return JSON.stringify(value.slice(0, most));
	if (value === null || typeof value !== "object") return String(value);
	if (value.$blob) return JSON.stringify(start(value, most));
	if (depth > 4) return "…";
	const parts = [], open = Array.isArray(value);
	let size = 0;
	for (const key in value) {
		if (size > most) break;
		const part = (open ? "" : `${key.slice(0, most)}: `) + brief(value[key], most, depth + 1);
		parts.push(part);
		size += part.length + 2;
	}
	return open ? `[${parts.join(", ")}]` : depth ? `{${parts.join(", ")}}` : parts.join(", ");
}

/** Of microseconds. */
export function duration(us) {
	if (us === null || us === undefined) return "–";
	const s = us / 1e6;
	if (s < 0.001) return `${Math.round(us)} µs`;
	if (s < 1) return `${Math.round(us / 1000)} ms`;
	if (s < 100) return `${s.toFixed(s < 10 ? 2 : 1)} s`;
	if (s < 7200) return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
	return `${Math.floor(s / 3600)} h ${Math.round((s % 3600) / 60)} min`;
}

export const millis = (ms) => duration(ms * 1000);
export const known = (n, form) => (typeof n === "number" ? form(n) : "");
export const number = (n) => (typeof n === "number" ? n.toLocaleString("en-US") : "–");
/** Of millionths of a dollar. */
export const money = (micros) => (typeof micros === "number" ? `$${(micros / 1e6).toFixed(!micros || micros >= 1e6 ? 2 : micros < 1e4 ? 6 : 4)}` : "–");
export const count = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;

/** Sign and tone of each status, as the document says. */
export const looks = {};
export const tone = (status) => looks[status]?.[1] ?? "plain";
export const words = (status) => String(status).replaceAll("_", " ");
export const badge = (status, word = true, standing = "") =>
	h("span", { class: `status ${tone(status)}`, title: standing || (word ? null : status) }, h("span", { hush: true }, looks[status]?.[0] ?? "·"), h("span", { class: word ? "" : "unseen" }, standing || words(status)));
export const trouble = (status) => (status && status !== "ok" && status !== "completed" ? badge(status) : null);
export const offset = (us) => (typeof us === "number" ? `+${duration(Math.max(0, us))}` : "");

export const quiet = (...words) => h("span.quiet", ...words);
export const heads = (...names) => h("thead", h("tr", names.map((name) => h("th", { scope: "col" }, name))));

export const to = (log, seq, view) => `#/log/${encodeURIComponent(log)}/${seq}${view ? `/${view}` : ""}`;

/** Give a select these [value, word]s; what was chosen stays, if it is still there. */
export function choices(pick, pairs) {
	const was = pick.value, said = JSON.stringify(pairs);
	if (pick.said === said) return;
	pick.said = said;
	pick.replaceChildren(...pairs.slice(0, 5000).map(([value, word]) => h("option", { value }, short(word, 80))));
	pick.value = was;
	if (pick.selectedIndex < 0) pick.selectedIndex = 0;
}

/** Offer any, or one of what was found. */
export const offer = (pick, any, found) => choices(pick, [["", any], ...[...new Set(found.filter(Boolean).map(String))].sort().slice(0, 500).map((name) => [name, words(name)])]);

/** Let the page breathe between batches. */
export const pause = () => new Promise((done) => {
	const channel = new MessageChannel();
	channel.port1.onmessage = () => { channel.port1.close(); done(null); };
	channel.port2.postMessage(0);
});

/** A text of any length: what is beyond the fold comes on demand. */
export function folded(text, fold = 1500) {
	if (text.length <= fold) return h("pre.text", text);
	const shown = h("pre.text", { tabindex: "0" }), more = h("button", { class: "quiet", onclick: () => show(50_000) });
	let end = 0;
	function show(size) {
		shown.append(visible(text.slice(end, end += size)));
		if (end >= text.length) more.remove(); else more.textContent = `Show more (${number(text.length - end)} characters)`;
	}
	show(fold);
	return h("div", shown, more);
}

/** Bytes, or their base64, as an image where they are one. */
export function picture(given) {
	let bytes = typeof given === "string" ? new TextEncoder().encode(given) : given;
	const latin = (n) => String.fromCharCode(...bytes.subarray(0, n)), typeOf = (text) => ({ iVBO: "png", "/9j/": "jpeg", R0lG: "gif", UklG: "webp" })[text.slice(0, 4)];
	const lead = /^(?:data:image\/\w+;base64,)?/.exec(latin(64))[0].length;
	try { if (typeOf(latin(64).slice(lead))) bytes = Uint8Array.from(atob(new TextDecoder().decode(bytes.subarray(lead))), (c) => c.charCodeAt(0)); } catch { return null; }
	const type = typeOf(btoa(latin(12)));
	return type ? h("img", { src: URL.createObjectURL(new Blob([bytes], { type: `image/${type}` })), alt: `image from the log, ${number(bytes.length)} bytes` }) : null;
}

/** JSON as a tree that is built as it is opened: `open` levels at once. */
export function json(value, blob, open = 2) {
	if (typeof value === "string") return value.length > 120 || value.includes("\n") ? folded(value, 800) : h("span.string", JSON.stringify(value));
	if (value === null || typeof value !== "object") return h("span.atom", String(value));
	if (typeof value.$blob === "string" && blob) return blob(value.$blob) ?? quiet(`blob ${value.$blob.slice(0, 12)}…, ${number(value.bytes)} bytes`);
	const keys = Object.keys(value), list = Array.isArray(value);
	if (!keys.length) return h("span.atom", list ? "[]" : "{}");
	const rows = h("div.members");
	const fill = (from) => {
		const to = Math.min(from + (from ? 100 : 20), keys.length);
		for (const key of keys.slice(from, to)) {
			rows.append(h("div.member", h("span.key", short(key, 200)), h("div.value", json(value[key], blob, open - 1))));
		}
		if (to < keys.length) rows.append(h("button", { class: "quiet", onclick: (e) => { e.target.remove(); fill(to); } }, `Show more (${number(keys.length - to)})`));
	};
	if (open > 0) { fill(0); return rows; }
	return h("details", { ontoggle: () => { if (!rows.childNodes.length) fill(0); } }, h("summary", list ? `[ ${count(keys.length, "item")} ]` : `{ ${short(brief(value, 90), 90)} }`), rows);
}

/** A list of which only what is seen is drawn. */
export class List {
	constructor(how) {
		this.how = how;
		this.active = -1;
		this.name = `list${List.made++}`;
		this.space = h("div.space", { role: "presentation" });
		this.probe = h("div.probe", { hush: true });
		this.element = h("div.list", { tabindex: "0", role: how.role ?? "listbox", label: how.label, onscroll: () => this.later(), onkeydown: (e) => this.key(e) }, this.probe, this.space);
		new ResizeObserver(() => this.draw()).observe(this.element);
		addEventListener("beforeprint", () => this.draw(true));
		addEventListener("afterprint", () => this.draw());
	}
	static made = 0;
	later() { if (!this.waiting) { this.waiting = true; requestAnimationFrame(() => { this.waiting = false; this.draw(); }); } }
	/** Draw what is seen; `all`, to print: the first 2,000, and how many there are. */
	draw(all = false) {
		if (!this.element.isConnected) return;
		const row = this.row = this.probe.offsetHeight || 32, n = this.how.count();
		this.space.style.height = `${n * row}px`;
		const from = all ? 0 : Math.max(0, Math.floor(this.element.scrollTop / row) - 6);
		const to = all ? Math.min(n, 2000) : Math.min(n, from + Math.ceil(this.element.clientHeight / row) + 12);
		const rows = [];
		for (let i = from; i < to; i++) {
			const made = this.how.draw(i, i === this.active);
			const on = i === this.active, said = { id: `${this.name}-${i}`, role: this.how.role === "tree" ? "treeitem" : "option", "aria-selected": on, "aria-posinset": i + 1, "aria-setsize": n };
			for (const name in said) made.setAttribute(name, said[name]);
			made.className += on ? " row on" : " row";
			made.style.transform = `translateY(${i * row}px)`;
			made.addEventListener("click", () => { this.active = i; how(i, true); this.draw(); });
			rows.push(made);
		}
		const how = this.how.choose;
		if (!n) rows.push(h("p.none", this.how.none));
		if (all && to < n) rows.push(h("p.none", `The first ${number(to)} of ${number(n)} are printed; to see others, use a filter.`));
		this.space.replaceChildren(...rows);
		if (this.active >= from && this.active < to) this.element.setAttribute("aria-activedescendant", `${this.name}-${this.active}`);
		else this.element.removeAttribute("aria-activedescendant");
	}
	show(i, centre = false) {
		this.active = i;
		this.draw();
		const row = this.row ?? 32, top = i * row, box = this.element;
		if (top < box.scrollTop || top + row > box.scrollTop + box.clientHeight) box.scrollTop = centre ? top - box.clientHeight / 3 : top < box.scrollTop ? top : top + row - box.clientHeight;
		this.draw();
	}
	/** `all`: wherever it was pressed. */
	key(e, all = false) {
		if (e.altKey || e.ctrlKey || e.metaKey || (!all && e.target !== this.element)) return;
		const n = this.how.count(), page = Math.max(1, Math.floor(this.element.clientHeight / (this.row ?? 32)) - 1);
		const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -n, End: n, j: 1, k: -1 }[e.key];
		if (this.how.keys?.(e, this.active)) { e.preventDefault(); e.stopPropagation(); return; }
		if (step === undefined && e.key !== "Enter") return;
		e.preventDefault();
		e.stopPropagation();
		if (!n) return;
		if (step !== undefined) this.show(Math.min(n - 1, Math.max(0, this.active + step)));
		this.how.choose(this.active, e.key === "Enter");
	}
}
