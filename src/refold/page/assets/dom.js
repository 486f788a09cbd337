/** Elements. Content is hostile: it becomes text, and none of its characters hides or moves text. */
import { Component, h as made } from "./vendor/preact.js";
import { visible } from "./words.js";

/** @param {any} child @returns {any} */
const shown = (child) =>
	typeof child === "string" ? visible(child) : Array.isArray(child) ? child.map(shown) : child;

/** Make an element: `h("p.soft", { title: "…" }, …)`. Addresses lead inside the page, or to what it made itself.
 * @param {any} type @param {Props | string | number | any[] | null | false} [props] @param {any[]} children */
export function h(type, props, ...children) {
	const has = props && props.constructor === Object;
	const inside = shown(has ? children : [props, ...children]);
	if (typeof type !== "string") return made(type, has ? props : {}, ...inside);
	const [tag, ...classes] = type.split(".");
	/** @type {any} */
	const given = {};
	for (const [word, value] of Object.entries(has ? props : {})) {
		const key = word === "label" ? "aria-label" : word === "hush" ? "aria-hidden" : word;
		if ((key === "href" && !/^[#?]/.test(value)) || (key === "src" && !/^blob:/.test(value)))
			throw new Error(`no address: ${key}`);
		if (key === "dangerouslySetInnerHTML") throw new Error("no markup");
		given[key] = typeof value === "string" ? visible(value) : value;
	}
	if (tag === "button") given.type = "button";
	if (tag === "pre" || classes[0] === "text") given.tabindex = "0"; // it scrolls
	given.class = [...classes, given.class].filter(Boolean).join(" ") || undefined;
	return made(tag, given, ...inside);
}

/** Let the page breathe between batches. */
export const pause = () =>
	new Promise((done) => {
		const channel = new MessageChannel();
		channel.port1.onmessage = () => {
			channel.port1.close();
			done(null);
		};
		channel.port2.postMessage(0);
	});

/** The role of each row, by that of its list; rows with controls of their own are in a `list`. @type {Record<string, string>} */
const ITEMS = { listbox: "option", tree: "treeitem", list: "listitem" };

/** A list of rows of one height, of which only what is seen is drawn; elements are used again.
 * `count`, `row(i)`, `height`, `label`; `active` is kept in view; `choose(i)` is called by keys and clicks. */
export class List extends Component {
	state = { top: 0, seen: 600, all: false };
	isWaiting = false;
	/** Rows that were made since the properties changed, by number. @type {Map<number, any>} */
	made = new Map();
	print = () => (this.made.clear(), this.setState({ all: true }));
	printed = () => (this.made.clear(), this.setState({ all: false }));
	componentDidMount() {
		this.watch = new ResizeObserver(() => this.look());
		this.watch.observe(this.base);
		addEventListener("beforeprint", this.print);
		addEventListener("afterprint", this.printed);
		this.follow(-1);
	}
	componentWillUnmount() {
		this.watch?.disconnect();
		removeEventListener("beforeprint", this.print);
		removeEventListener("afterprint", this.printed);
	}
	componentWillReceiveProps() {
		this.made.clear();
	}
	/** @param {any} before */
	componentDidUpdate(before) {
		this.follow(before.active ?? -1);
	}
	look() {
		if (this.isWaiting) return;
		this.isWaiting = true;
		requestAnimationFrame(() => {
			this.isWaiting = false;
			if (!this.base) return;
			const { scrollTop: top, clientHeight: seen } = this.base;
			const { height } = this.props;
			const from = Math.floor(this.state.top / height) !== Math.floor(top / height);
			if (from || seen !== this.state.seen) this.setState({ top, seen });
		});
	}
	/** @param {number} before */
	follow(before) {
		const { active = -1, height } = this.props;
		if (active < 0 || active === before) return;
		const top = active * height;
		const box = this.base;
		if (top < box.scrollTop) box.scrollTop = top;
		else if (top + height > box.scrollTop + box.clientHeight) box.scrollTop = top + height - box.clientHeight;
		this.look();
	}
	/** @param {KeyboardEvent} e */
	key(e) {
		const { count, active = -1, choose, keys } = this.props;
		if (e.altKey || e.ctrlKey || e.metaKey) return;
		const page = Math.max(1, Math.floor(this.state.seen / this.props.height) - 1);
		/** @type {Record<string, number>} */
		const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -count, End: count };
		if (keys?.(e)) e.preventDefault();
		if (!(e.key in steps) || !count) return;
		e.preventDefault();
		e.stopPropagation();
		choose(Math.min(count - 1, Math.max(0, active + steps[e.key])));
	}
	/** Row `i`, in the element `key`; while one scrolls, the same row is the same object, and not compared.
	 * @param {number} i @param {number} key */
	row(i, key) {
		const known = this.made.get(i);
		if (known?.key === key) return known;
		const { row, count, height, active = -1, role = "listbox", choose, name = "" } = this.props;
		const { class: kind = "", inside, ...more } = row(i);
		const given = {
			key,
			id: `${name}-${i}`,
			class: `item ${kind} ${i === active ? "on" : ""}`,
			role: ITEMS[role],
			"aria-selected": role === "list" ? undefined : String(i === active),
			"aria-posinset": i + 1,
			"aria-setsize": count,
			style: this.state.all ? {} : { top: `${i * height}px`, height: `${height}px` },
			onClick: () => choose?.(i),
		};
		const made = h("div", { ...given, ...more }, inside);
		this.made.set(i, made);
		return made;
	}
	/** @param {any} props @param {any} state */
	render({ count, height, label, active = -1, role = "listbox", none = "", max = 0, name = "" }, state) {
		const from = state.all ? 0 : Math.max(0, Math.floor(state.top / height) - 4);
		const to = state.all ? Math.min(count, 2000) : Math.min(count, from + Math.ceil(state.seen / height) + 8);
		const pool = Math.max(1, to - from);
		/** By element, so that none is moved. @type {any[]} */
		const rows = Array(to - from);
		for (let i = from; i < to; i++) rows[i % pool] = this.row(i, i % pool);
		for (const i of this.made.keys()) if (i < from || i >= to) this.made.delete(i);
		if (state.all && to < count)
			rows.push(
				h("p.soft", { key: "rest" }, `The first ${to} of ${count} are printed; to see others, search.`),
			);
		const tall = Math.max(1, count) * height;
		return h(
			"div",
			{
				class: `list ${state.all ? "printed" : ""}`,
				tabindex: "0",
				role: count ? role : undefined,
				label: count ? label : undefined,
				"aria-activedescendant": active >= from && active < to ? `${name}-${active}` : undefined,
				style: max ? { height: state.all ? "auto" : `${Math.min(max, tall)}px` } : {},
				onScroll: () => this.look(),
				onKeyDown: (e) => this.key(e),
			},
			h(
				"div.space",
				{ role: "presentation", style: { height: state.all ? "auto" : `${count * height}px` } },
				rows,
			),
			count ? null : h("p.none", none),
		);
	}
}
