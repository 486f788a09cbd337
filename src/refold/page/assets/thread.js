/** The thread of a conversation: what each request added, what the model said, what its tools gave. */
import { badge, choices, duration, folded, h, json, pause, picture, quiet, short, to } from "./dom.js";
import { faultOf, said, scopeOf } from "./data.js";

const PAGE = 60;

export function thread(app) {
	const pick = h("select", { label: "Conversation", onchange: () => { const each = threads()[Number(pick.value)]; if (each) app.select(each.log, each.seq, "thread"); } });
	const body = h("div.messages", { tabindex: "0", role: "region", label: "Messages" });
	let drawn = "", of = "", marked = "", turn = 0;
	const threads = () => app.page.threads;

	const tree = (value, open) => json(value ?? null, app.blobOf, open);
	const words = (value) => (typeof value === "string" ? folded(value) : tree(value));

	/** Blocks of a message: text folded, images shown, all else as JSON. */
	function content(message) {
		const parts = message?.content ?? message?.parts ?? null;
		if (message?.content?.$blob) return [app.blobOf(message.content.$blob)];
		if (!Array.isArray(parts)) return said(message) ? [folded(said(message))] : [];
		return parts.map((part) => {
			if (typeof part === "string") return folded(part);
			const text = part?.text ?? (typeof part?.content === "string" ? part.content : null);
			if (typeof text === "string") return folded(text);
			const blob = part?.source?.data ?? part?.image_url?.url ?? part?.data ?? part?.text;
			return blob?.$blob ? app.blobOf(blob.$blob) : (typeof blob === "string" && picture(blob)) || h("details", h("summary", short(part?.type ?? "part")), tree(part));
		});
	}
	const ending = (of, value) => (of.error ? words(faultOf(of.error)) : tree(value));
	const calls = (message) => (message?.tool_calls ?? []).map((call) => h("div.asks", quiet("asks for "), h("code", short(call?.function?.name ?? call?.name ?? call?.tool ?? "a tool", 100)), " ", quiet(short(call?.function?.arguments ?? call?.arguments ?? call?.input, 300))));
	const folds = (error, status, name, about, ...inner) => h("details", { open: Boolean(error) }, h("summary", badge(status, status !== "ok"), h("code", short(name, 100)), quiet(short(about, 200))), inner);

	function item(log, e, open) {
		const d = e.data, made = [], asked = open.get(e.call), was = asked?.data ?? {};
		const took = asked ? quiet(duration((e.meta?.mono_us ?? 0) - (asked.meta?.mono_us ?? 0))) : null;
		const add = (role, inner, ...notes) => made.push(h("article", { class: `message ${role.replace(/[^a-z]/g, "")}`, "data-seq": e.seq }, h("header", h("strong", short(role, 60)), notes, h("a", { href: to(log, e.seq, "thread"), class: "seq" }, `entry ${e.seq}`)), inner));
		if (/^(tool.called|model.asked|child.started)$/.test(e.kind)) open.set(e.call, e);
		switch (e.left ? "" : e.kind) {
			case "run.started": add("input", tree(d.input)); break;
			case "model.asked": for (const m of d.added ?? []) {
				if (m?.role === "tool") made.push(h("details.message.tool.given", { "data-seq": e.seq }, h("summary", "tool result, as sent to the model"), content(m)));
				else add(String(m?.role ?? "message"), [content(m), calls(m)]);
			} break;
			case "model.answered": {
				const usage = d.usage ?? {}, tokens = (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);
				add("assistant", d.error ? [badge("error"), " ", words(faultOf(d.error))] : [content(d.message), calls(d.message)], quiet(short(was.model ?? "", 80)), took, tokens ? quiet(`${tokens} tokens`) : null);
			} break;
			case "tool.returned": add("tool", folds(d.error, d.status, was.tool, was.arguments, h("div.pair", tree(was.arguments ?? {})), ending(d, d.result)), took); break;
			case "child.finished": { const g = was.delegation ?? d.delegation ?? {}, o = d.outcome ?? {}; add("subagent", folds(o.error, o.status ?? "unfinished", g.agent ?? g.program, g.brief, tree(o, 1)), took); } break;
			case "input.asked": case "input.given": add(e.kind === "input.asked" ? "question" : "person", words(d.question ?? d.answer)); break;
			case "limit.hit": case "note.added": add(e.kind === "limit.hit" ? "limit" : "note", words(d.text ?? `${d.limit}: ${d.observed} of ${d.allowed}`)); break;
			case "run.finished": add("end", [badge(d.status), " ", ending(d, d.output)]); break;
			default:
		}
		return made;
	}
	/** Draw from an entry on, a screen at a time. */
	async function fill(each, from, goal) {
		const others = new Set(threads().filter((o) => o.log === each.log && o.scope !== each.scope).map((o) => o.scope));
		const mine = ++turn, log = app.store.logs.get(each.log), open = new Map();
		let seq = from, n = 0, until = performance.now() + 12;
		for (; log && seq < log.lines && (n < PAGE || seq <= goal); seq++) {
			const e = log.entry(seq);
			if (!e.call || !others.has(scopeOf(e))) { const made = item(each.log, e, open); n += made.length; body.append(...made); }
			if (performance.now() > until) { await pause(); if (mine !== turn) return; until = performance.now() + 12; }
		}
		if (log && seq < log.lines) body.append(h("button", { onclick: (e) => { e.target.remove(); fill(each, seq, 0); } }, "Show what follows"));
		if (!body.childNodes.length) body.append(h("p.none", app.page.content === false ? "Content was left out of this page." : app.store.loaded ? "No messages." : "Reading …"));
		mark();
	}
	function mark() {
		let near = null;
		for (const each of body.children) { each.classList.remove("on"); if (Number(each.getAttribute("data-seq")) <= (app.at.seq ?? -1) && each.hasAttribute("data-seq")) near = each; }
		if (!app.at.seq || !near || !of.startsWith(`${app.at.log}:`)) return;
		near.classList.add("on");
		const now = `${app.at.log}:${app.at.seq}`;
		if (now !== marked) near.scrollIntoView({ block: "nearest" });
		marked = now;
	}
	/** Which conversation holds the chosen entry: the nearest to its scope; the main one, if none is chosen. */
	function chosen(list) {
		const { log, seq } = app.at, scope = scopeOf(app.store.entry(log, seq)), near = (each) => (each.log !== log ? -1 : !each.scope || `${scope}/`.startsWith(`${each.scope}/`) ? 1 + (each.scope?.length ?? 0) : 0);
		const best = seq === undefined && log === app.store.root ? -1 : list.reduce((best, each, i) => (near(each) > (best < 0 ? -1 : near(list[best])) ? i : best), -1);
		return best < 0 ? app.page.main : best;
	}
	function place() {
		const list = threads(), i = chosen(list);
		choices(pick, list.map((each, n) => [String(n), `${short(each.label, 70)}${app.nodeOf(each.log)?.number ? ` #${app.nodeOf(each.log).number}` : ""}`]));
		pick.value = String(i);
		const each = list[i], log = each && app.store.logs.get(each.log);
		// A page of a long thread begins near the entry that was asked for.
		const goal = app.at.log === each?.log ? app.at.seq ?? 0 : 0, from = goal > 2000 ? goal - 200 : 0, key = `${each?.log}:${each?.scope}:${log?.lines}`;
		if (key === drawn && (!goal || body.querySelector(`[data-seq="${goal}"]`) || from === 0)) { mark(); return; }
		const talk = key.slice(0, key.lastIndexOf(":")), kept = of === talk ? body.scrollTop : 0;
		of = talk;
		drawn = key;
		body.replaceChildren(from ? h("p.quiet", `From entry ${from} on.`) : "");
		if (each) fill(each, from, goal);
		if (kept) body.scrollTop = kept;
	}
	return { element: h("section.view.threadview", { label: "Thread" }, h("div.bar", pick), body), place, update: place, grown: place };
}
