/** The tree of delegations: who was asked by whom, how it ended, what it took. */
import { faultOf } from "./data.js";
import { List, badge, duration, h, money, number, short, tone } from "./dom.js";

/** Limits that were narrowed for it, in words */
export const limitsOf = (node) => Object.entries(node.narrowed).map(([name, value]) => (name === "timeout_seconds" ? `${number(value)} s` : `${number(value)} ${name.replace("max_", "").replaceAll("_", " ")}`)).join(", ");

const COLUMNS = { run: ["Run", "minmax(0, 1fr)"], via: ["Asked by", "minmax(0, 8rem)"], limits: ["Limits", "minmax(0, 11rem)"], calls: ["Calls", "10.5rem"], tokens: ["Tokens", "6rem"], cost: ["Cost", "5.5rem"], time: ["Time", "5.5rem"] };

/** Its calls, as `order_status ×3 (2 failed)` */
export const usesOf = (node) => node.tools.map((use) => `${use.tool} ×${use.called}${use.failed ? ` (${use.failed} failed)` : ""}`).join(", ");

/** What befell its log, where it is not there whole */
const goneOf = ({ log_state: it }) => !["read", "none"].includes(it) && `its log is ${it === "foreign" ? "another run's" : it}`;

/** The node and all below it, parents first */
export function nodesOf(root) {
	const found = [];
	const waiting = root ? [root] : [];
	while (waiting.length) {
		const node = waiting.pop();
		found.push(node);
		waiting.push(...[...node.children].reverse());
	}
	return found;
}

export function passes(node, filter) {
	if (filter.status && (filter.status === "not completed" ? node.status === "completed" : node.status !== filter.status)) return false;
	if (filter.agent && (node.agent || node.program) !== filter.agent) return false;
	if (filter.tool && node.tool !== filter.tool && !node.tools.some((use) => use.tool === filter.tool)) return false;
	if (!filter.text) return true;
	const words = [node.name, node.brief, node.tool, node.status, node.error?.code, node.error?.message, ...node.models, ...node.tools.map((use) => use.tool)];
	return words.some((word) => word && String(word).toLowerCase().includes(filter.text.toLowerCase()));
}

export function tree(app) {
	const closed = new Set();
	let rows = [];
	const list = new List({
		label: "Delegations", role: "tree", count: () => rows.length, draw,
		choose: (i) => app.choose(rows[i].node),
		keys: (e, i) => {
			const node = rows[i]?.node, open = node && !closed.has(node);
			if (!node || !/Left|Right/.test(e.key)) return false;
			const into = e.key === "ArrowRight";
			if (node.children.length && open !== into) { if (into) closed.delete(node); else closed.add(node); flatten(); list.draw(); }
			else if (!into) { const up = rows.slice(0, i).findLastIndex((row) => row.depth < rows[i].depth); if (up >= 0) list.show(up); }
			return true;
		},
	});
	const all = nodesOf(app.page.tree), used = { run: true, via: all.some((n) => n.tool), limits: all.some((n) => limitsOf(n)), calls: all.some((n) => n.tools.length), tokens: all.some((n) => n.usage.input_tokens || n.usage.output_tokens), cost: all.some((n) => typeof n.cost_usd_micros === "number"), time: true };
	const names = Object.keys(COLUMNS).filter((name) => used[name]), widths = (some) => some.map((name) => COLUMNS[name][1]).join(" "), columns = { "--all": widths(names), "--few": widths(names.filter((name) => !["via", "limits", "calls"].includes(name))) };
	const head = h("div.row.head", { hush: true }, names.map((name) => h("span", { class: name }, COLUMNS[name][0])));
	const none = h("p.none");

	function flatten() {
		const filter = app.filter, some = filter.text || filter.status || filter.agent || filter.tool, kept = new Set();
		if (some) {
			const all = nodesOf(app.page.tree), above = new Map(all.flatMap((node) => node.children.map((child) => [child, node])));
			for (const node of all) if (passes(node, filter)) for (let at = node; at && !kept.has(at); at = above.get(at)) kept.add(at);
		}
		rows = [];
		const walk = [{ node: app.page.tree, depth: 0 }];
		while (walk.length) {
			const row = walk.pop();
			if (some && !kept.has(row.node)) continue;
			rows.push(row);
			if (!closed.has(row.node)) walk.push(...[...row.node.children].reverse().map((node) => ({ node, depth: row.depth + 1 })));
		}
		none.textContent = rows.length ? "" : "No run is like that.";
		list.active = rows.findIndex((row) => row.node === app.node);
	}

	function draw(i) {
		const { node, depth } = rows[i], uses = node.tools, below = node.children.length;
		const sum = (of) => uses.reduce((n, use) => n + use[of], 0), failed = sum("failed"), calls = sum("called");
		const tokens = node.usage.input_tokens + node.usage.output_tokens, limits = limitsOf(node), error = faultOf(node.error), gone = goneOf(node);
		const twist = h("span.twist", { hush: true, onclick: (e) => { if (!below) return; e.stopPropagation(); if (!closed.delete(node)) closed.add(node); flatten(); list.draw(); } }, below ? (closed.has(node) ? "▸" : "▾") : "");
		return h("div", { class: `tree ${tone(node.status)}`, "aria-level": String(depth + 1), "aria-expanded": below ? String(!closed.has(node)) : null },
			h("span.run", { style: { "--depth": String(Math.min(depth, 12)) } }, twist, badge(node.status, node.status !== "completed"),
				h("strong", short(node.name || "rejected", 80)), node.number ? h("span.quiet", `#${node.number}`) : null, gone && h("span.bad", gone),
				h("span.brief", { title: short(error || node.brief || "", 1000) }, short(error || node.brief || ""))),
			names.slice(1).map((name) => ({
				via: () => h("span.via", node.tool ? short(node.tool, 60) : ""),
				limits: () => h("span.limits", { title: "Limits narrower than what was to be had" }, limits),
				calls: () => h("span.calls", { title: usesOf(node) || null }, calls ? [number(calls), h("span.unit", calls === 1 ? " call" : " calls")] : "", failed ? h("span.bad", ` (${number(failed)} failed)`) : null),
				tokens: () => h("span.tokens", { title: "With all below" }, tokens ? [number(tokens), h("span.unit", " tokens")] : ""),
				cost: () => h("span.cost", typeof node.cost_usd_micros === "number" ? money(node.cost_usd_micros) : ""),
				time: () => h("span.time", typeof node.duration_ms === "number" ? duration(node.duration_ms * 1000) : ""),
			})[name]?.()));
	}
	flatten();
	return {
		element: h("section.view.treeview", { label: "Tree", style: columns }, head, list.element, none), list,
		update() { flatten(); list.draw(); },
		place() { flatten(); if (list.active >= 0) list.show(list.active, true); else list.draw(); },
		reveal(node) { for (const each of nodesOf(app.page.tree)) if (nodesOf(each).includes(node)) closed.delete(each); },
	};
}
