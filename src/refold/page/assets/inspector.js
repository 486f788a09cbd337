/** What one entry is: its data, what led to it, what it led to, its line and its hash. */
import { badge, duration, folded, h, json, offset, short, to, trouble } from "./dom.js";
import { faultOf, statusOf, summary } from "./data.js";
import { limitsOf, notableOf, usesOf } from "./tree.js";

const LEFT = "Content was left out of this page.";

const told = (facts) => h("dl", Object.entries(facts).filter(([, fact]) => fact).map(([name, fact]) => [h("dt", name), h("dd", fact)]));

export function inspector(app) {
	const body = h("div.inside");
	const element = h("aside.inspector", { label: "Inspector", tabindex: "-1" }, body);
	const open = new Set(["Run", "Data", "Files", "Why", "Led to"]);

	function part(name, fill) {
		const inner = h("div", {}), show = () => { if (made.open && !inner.childNodes.length) inner.append(...[fill()].flat().filter(Boolean)); };
		const made = h("details.part", { open: open.has(name), ontoggle: () => { open[made.open ? "add" : "delete"](name); show(); } }, h("summary", h("h3", name)), inner);
		show();
		return made;
	}
	function link(how, log, seq, since) {
		const e = app.store.entry(log, seq), at = e && app.store.at(e), bad = trouble(e ? statusOf(e) : "");
		const gap = since && e && at !== null ? (app.store.at(since) ?? at) - at : null;
		return h("li", h("a", { href: to(log, seq) }, h("span.how", how), h("span.kind", `${log === app.at.log ? "" : `${app.nameOf(log, true)} `}${seq} ${e?.kind ?? "…"}`),
			h("span.at", offset(at), gap ? `, ${duration(Math.abs(gap))} before` : ""), h("span.what", bad, e ? short(summary(e, bad), 160) : "")));
	}
	function why(log, seq, entry) {
		const list = h("ol.chain"), beside = app.store.linksOf(log)?.beside ?? {};
		const aside = (at, since) => { for (const [also, l, s] of beside[at] ?? []) { const item = link(also, l, s, since); item.classList.add("beside"); list.append(item); } };
		const grow = (next, since) => {
			for (let n = 0; next?.[1] && n < 12; n++) {
				const [how, onLog, onSeq] = next, e = app.store.entry(onLog, onSeq);
				list.append(link(how, onLog, onSeq, since));
				aside(`${onLog}:${onSeq}`);
				since = e;
				next = app.store.cause(onLog, onSeq);
			}
			if (next && !next[1]) list.append(h("li.quiet", `${next[0]}: in the log of its parent, which is not in this page`));
			else if (next) list.append(h("li", h("button", { class: "quiet", onclick: (e) => { e.target.parentNode.remove(); grow(next, since); } }, "Further back")));
		};
		aside(`${log}:${seq}`, entry);
		grow(app.store.cause(log, seq), entry);
		if (!list.childNodes.length) return h("p.quiet", "Nothing: this is the start of the run.");
		return app.page.left_out ? [list, h("p.quiet", "Other causes: ", h("code", `refold why LOG ${seq} --all`), ".")] : list;
	}
	function run(node) {
		const usage = node.usage;
		const facts = { Ended: h("span", badge(node.status, true, node.standing), node.reason && node.reason !== "done" ? ` ${short(node.reason, 80)}` : ""), Fault: node.error && folded(faultOf(node.error), 600), Notable: notableOf(node), Program: node.program, Brief: node.brief && folded(node.brief, 400), "Asked by": node.tool && `${node.tool}${node.is_provisional ? " (provisional)" : ""}`, Files: node.files.length && folded(node.files.map((file) => file.text).join("\n"), 1000), Limits: limitsOf(node), Calls: usesOf(node), Models: node.models.join(", "),
			Spent: usage.requests && `${usage.spent}${node.children.length && node.own_usage.requests ? ` (its own: ${node.own_usage.spent})` : ""}`, Time: node.duration_ms !== null && duration(node.duration_ms * 1000), Artifacts: node.artifacts.map((each) => `${each.name} (${each.kind})`).join(", ") };
		return told(facts);
	}
	let shown = "";
	function draw() {
		const top = element.scrollTop, { log, seq } = app.at, of = app.store.logs.get(log), e = of && app.store.entry(log, seq), node = app.node ?? app.nodeOf(log);
		element.classList.toggle("open", seq !== undefined || Boolean(app.node));
		const step = (sign, label, to) => h("button", { label, title: label, disabled: !of || to < 0 || to >= of.lines, onclick: () => app.select(log, to) }, sign);
		const close = h("button", { class: "close", label: "Close (Esc)", title: "Close (Esc)", onclick: () => app.close() }, "×");
		if (!e) {
			body.replaceChildren(...(node && app.node ? [h("header", h("h2", short(node.name, 100)), close), part("Run", () => run(node))] : [h("p.none", seq === undefined ? "Choose a run or an entry." : app.store.loaded ? `There is no entry ${seq} in log ${log}.` : "Reading …"), close]));
			return;
		}
		const at = app.store.at(e), status = statusOf(e), bad = (app.checked?.problems ?? []).filter((each) => each.log === log && each.seq === seq);
		const led = () => { const found = app.store.ledTo(log, seq); return found.length ? h("ol.chain", found.slice(0, 50).map((each) => link(each[0], each[1], each[2])), found.length > 50 ? h("li", `and ${found.length - 50} more`) : null) : h("p.quiet", "No later entry follows directly from this one."); };
		const changed = app.store.runs.flatMap((run) => (run.logs[0].id === log ? run.changes : [])).filter((each) => each.seq === seq || each.calls.includes(e.call));
		const wall = e.meta?.wall_us ? new Date(e.meta.wall_us / 1000) : null;
		body.replaceChildren(
			h("header", h("h2", e.kind), status ? badge(status) : null, close),
			h("p.where", h("span", `${app.nameOf(log)}, entry ${seq}`), e.call ? h("span", `call ${e.call}`) : null, h("span", offset(at))),
			h("div.steps", step("⇤", "First entry", 0), step("←", "Entry before (k)", seq - 1), step("→", "Entry after (j)", seq + 1), step("⇥", "Last entry", of.lines - 1), app.childOf(log, seq) !== null ? h("a.button", { href: to(app.childOf(log, seq), 0) }, "Its run") : null, of.said.parent ? h("a.button", { href: to(of.said.parent.log, of.said.parent.seq) }, "Started by") : null),
			...bad.map((each) => h("p.alarm", `Not intact: ${each.what}.`)),
			seq === 0 || e.kind === "run.finished" || app.node ? (node ? part("Run", () => run(node)) : "") : "",
			part("Data", () => (e.left ? h("p.quiet", LEFT) : json(e.data, app.blobOf, 3))),
			changed.length ? part("Files", () => changed.flatMap((each) => [h("p.where", each.text), each.diff && folded(each.diff, 4000)])) : "",
			part("Why", () => why(log, seq, e)),
			part("Led to", led),
			part("Line and hash", () => [told({ Hash: h("code", e.hash ?? "–"), Before: h("code", app.store.entry(log, seq - 1)?.hash ?? "–"), Written: +wall ? wall.toISOString() : "" }), of.rows ? h("p.quiet", LEFT) : folded(of.text(seq), 1000)]));
		const now = `${log} ${seq} ${app.node?.key}`;
		element.scrollTop = now === shown ? top : 0;
		shown = now;
	}
	return { element, draw };
}
