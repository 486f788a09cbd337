/** The tree of delegations: who was asked by whom, how it ended, what it took. */
import { faultOf } from "./data.js";
import { List, badge, h, known, millis, number, quiet, short, tone } from "./dom.js";

export const limitsOf = (node) => Object.entries(node.narrowed).map(([name, value]) => (name === "timeout_seconds" ? `${number(value)} s` : `${number(value)} ${name.replace("max_", "").replaceAll("_", " ")}`)).join(", ");

/** Its calls, as `order_status ×3 (2 failed)` */
export const usesOf = (node) => node.tools.map((use) => `${use.tool} ×${use.called}${use.failed ? ` (${use.failed} failed)` : ""}`).join(", ");

/** What it did beside what it says */
export const notableOf = (node) => Object.values(node.notable).join("; ");

/** What befell its log, where it is not there whole */
const goneOf = ({ log_state: it }) => !["read", "none"].includes(it) && `its log is ${it === "foreign" ? "another run's" : it}`;

function callsOf({ tools }) {
	const sum = (of) => tools.reduce((n, use) => n + use[of], 0), failed = sum("failed"), calls = sum("called");
	return calls ? [number(calls), h("span.unit", calls === 1 ? " call" : " calls"), failed ? h("span.bad", ` (${number(failed)} failed)`) : ""] : "";
}

const tokensOf = ({ usage: { tokens } }) => [tokens, /\d/.test(tokens) ? h("span.unit", " tokens") : ""];

/** Of each column: head, width, content, tooltip. One that is empty throughout is not shown. */
const COLUMNS = {
	run: ["Run", "minmax(0, 1fr)"],
	via: ["Asked by", "minmax(0, 8rem)", (node) => short(node.tool, 60)],
	limits: ["Limits", "minmax(0, 11rem)", limitsOf, () => "Limits lower than the parent's"],
	calls: ["Calls", "10.5rem", callsOf, usesOf],
	files: ["Files", "6rem", (node) => node.changed, (node) => node.files.map((file) => file.path).join("\n")],
	tokens: ["Tokens", "6rem", tokensOf, () => "With all below"],
	cost: ["Cost", "5.5rem", (node) => node.cost],
	time: ["Time", "5.5rem", (node) => (node.status === "rejected" ? "" : known(node.duration_ms, millis))],
};

/** The node and all below it, parents first; `key` names each in every document of the run. */
export function nodesOf(root) {
	const found = [];
	const waiting = [root];
	while (waiting.length) {
		const node = waiting.pop();
		found.push(node);
		node.key ??= "";
		for (const child of node.children) child.key = `${node.key} > ${child.scope || child.call}`;
		waiting.push(...[...node.children].reverse());
	}
	return found;
}

export const some = (filter) => Object.values(filter).some(Boolean);
export function passes(node, filter) {
	if (filter.status && (filter.status === "not completed" ? node.status === "completed" : node.status !== filter.status)) return false;
	if (filter.agent && (node.agent || node.program) !== filter.agent) return false;
	if (filter.tool && node.tool !== filter.tool && !node.tools.some((use) => use.tool === filter.tool)) return false;
	if (!filter.text) return true;
	const words = [node.name, node.brief, node.tool, node.standing || node.status, node.error?.code, node.error?.message, notableOf(node), ...node.models, ...node.tools.map((use) => use.tool)];
	return words.some((word) => word && String(word).toLowerCase().includes(filter.text.toLowerCase()));
}

export function tree(app) {
	const closed = new Set();
	let rows = [];
	const list = new List({
		label: "Delegations", role: "tree", none: "No run matches.", count: () => rows.length, draw,
		choose: (i) => app.choose(rows[i].node),
		keys: (e, i) => {
			const node = rows[i]?.node, open = node && !closed.has(node.key);
			if (!node || !/Left|Right/.test(e.key)) return false;
			const into = e.key === "ArrowRight";
			if (node.children.length && open !== into) { closed[into ? "delete" : "add"](node.key); flatten(); list.draw(); }
			else if (!into) { const up = rows.slice(0, i).findLastIndex((row) => row.depth < rows[i].depth); if (up >= 0) list.show(up); }
			return true;
		},
	});
	const head = h("div.row.head", { hush: true }), element = h("section.view.treeview", { label: "Tree" }, head, list.element);
	let names;
	function columns() {
		const all = nodesOf(app.page.tree), set = (rule, some) => element.style.setProperty(rule, some.map((name) => COLUMNS[name][1]).join(" "));
		names = Object.keys(COLUMNS).filter((name, i) => !i || all.some((node) => COLUMNS[name][2](node).length));
		set("--all", names);
		set("--few", names.filter((name) => !["via", "limits", "calls"].includes(name)));
		head.replaceChildren(...names.map((name) => h("span", { class: name }, COLUMNS[name][0])));
	}

	function flatten() {
		const filter = app.filter, kept = new Set(), chosen = some(filter);
		if (chosen) {
			const all = nodesOf(app.page.tree), above = new Map(all.flatMap((node) => node.children.map((child) => [child, node])));
			for (const node of all) if (passes(node, filter)) for (let at = node; at && !kept.has(at); at = above.get(at)) kept.add(at);
		}
		rows = [];
		const walk = [{ node: app.page.tree, depth: 0 }];
		while (walk.length) {
			const row = walk.pop();
			if (chosen && !kept.has(row.node)) continue;
			rows.push(row);
			if (!closed.has(row.node.key)) walk.push(...[...row.node.children].reverse().map((node) => ({ node, depth: row.depth + 1 })));
		}
		list.active = rows.findIndex((row) => row.node === app.node);
	}

	function draw(i) {
		const { node, depth } = rows[i], below = node.children.length, gone = goneOf(node), told = [gone, notableOf(node), faultOf(node.error) || node.brief].filter(Boolean).join(" · ");
		const twist = h("span.twist", { hush: true, onclick: (e) => { if (!below) return; e.stopPropagation(); if (!closed.delete(node.key)) closed.add(node.key); flatten(); list.draw(); } }, below ? (closed.has(node.key) ? "▸" : "▾") : "");
		return h("div", { class: `tree ${tone(node.status)}`, "aria-level": String(depth + 1), "aria-expanded": below ? String(!closed.has(node.key)) : null },
			h("span.run", { style: { "--depth": String(Math.min(depth, 12)) } }, twist, badge(node.status, node.status !== "completed", node.standing),
				h("strong", short(node.name || "rejected", 80)), node.number ? quiet(`#${node.number}`) : null,
				h("span", { class: gone ? "brief bad" : "brief", title: short(told, 1000) }, short(told))),
			names.slice(1).map((name) => h("span", { class: name, title: COLUMNS[name][3]?.(node) || null }, COLUMNS[name][2](node))));
	}
	columns();
	flatten();
	return {
		element, list, filters: true,
		update() { columns(); flatten(); list.draw(); },
		place() { columns(); flatten(); if (list.active >= 0) list.show(list.active, true); else list.draw(); },
		reveal(node) { for (const each of nodesOf(app.page.tree)) if (node.key.startsWith(each.key)) closed.delete(each.key); },
	};
}
