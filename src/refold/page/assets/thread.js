/** The thread of a conversation: what each request added, what the model said, what its tools gave. */
import { badge, duration, folded, h, json, pause, picture, short } from "./dom.js";
import { faultOf, said } from "./data.js";

const PAGE = 60;

export function thread(app) {
	const pick = h("select", { label: "Conversation", onchange: () => { const each = threads()[Number(pick.value)]; if (each) app.select(each.log, 0, "thread"); } });
	const body = h("div.messages", { tabindex: "0", role: "region", label: "Messages" });
	let drawn = "", turn = 0;
	const threads = () => (app.page.threads?.length ? app.page.threads : app.page.lanes.map((lane) => ({ log: lane.log, scope: lane.scope, label: lane.label })));

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
	const calls = (message) => (message?.tool_calls ?? []).map((call) => h("div.asks", h("span.quiet", "asks for "), h("code", short(call?.function?.name ?? call?.name ?? call?.tool ?? "a tool", 100)), " ", h("span.quiet", short(call?.function?.arguments ?? call?.arguments ?? call?.input, 300))));

	const block = (log, seq, role, inner, note) => h("article", { class: `message ${role.replace(/[^a-z]/g, "")}`, "data-seq": seq },
		h("header", h("strong", short(role, 60)), note, h("a", { href: `#/log/${log}/${seq}/thread`, class: "seq" }, `entry ${seq}`)), inner);

	function item(each, e, open) {
		if (e.left) return [];
		const d = e.data, made = [], at = (from) => (from ? h("span.quiet", duration((e.meta?.mono_us ?? 0) - (from.meta?.mono_us ?? 0))) : null);
		if (e.call) open.set(e.kind + e.call, e);
		switch (e.kind) {
			case "run.started": made.push(block(each.log, e.seq, "input", [tree(d.input)])); break;
			case "model.asked": for (const m of d.added ?? []) {
				if (m?.role === "tool") made.push(h("details.message.tool.given", { "data-seq": e.seq }, h("summary", "tool result, as the model was given it"), content(m)));
				else made.push(block(each.log, e.seq, String(m?.role ?? "message"), [content(m), calls(m)]));
			} break;
			case "model.answered": {
				const usage = d.usage ?? {}, tokens = (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);
				made.push(block(each.log, e.seq, "assistant", d.error ? [badge("error"), " ", words(faultOf(d.error))] : [content(d.message), calls(d.message)], [h("span.quiet", short(open.get(`model.asked${e.call}`)?.data.model ?? "", 80)), at(open.get(`model.asked${e.call}`)), tokens ? h("span.quiet", `${tokens} tokens`) : null]));
			} break;
			case "tool.returned": { const asked = open.get(`tool.called${e.call}`); made.push(block(each.log, e.seq, "tool", [h("details", { open: d.error ? true : null }, h("summary", badge(d.status, d.status !== "ok"), h("code", short(asked?.data.tool, 100)), h("span.quiet", short(asked?.data.arguments, 200))), h("div.pair", tree(asked?.data.arguments ?? {})), ending(d, d.result))], at(asked))); } break;
			case "child.finished": { const g = open.get(`child.started${e.call}`)?.data.delegation ?? d.delegation ?? {}, o = d.outcome ?? {}; made.push(block(each.log, e.seq, "subagent", [h("details", { open: o.error ? true : null }, h("summary", badge(o.status ?? "unfinished"), h("code", short(g.agent ?? g.program, 80)), h("span.quiet", short(g.brief, 200))), tree(o, 1))], at(open.get(`child.started${e.call}`)))); } break;
			case "input.asked": case "input.given": made.push(block(each.log, e.seq, e.kind === "input.asked" ? "question" : "person", [words(d.question ?? d.answer)])); break;
			case "limit.hit": case "note.added": made.push(block(each.log, e.seq, e.kind === "limit.hit" ? "limit" : "note", [words(d.text ?? `${d.limit}: ${d.observed} of ${d.allowed}`)])); break;
			case "run.finished": made.push(block(each.log, e.seq, "end", [badge(d.status), " ", ending(d, d.output)])); break;
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
			if (!e.call || !others.has(e.call.split("#")[0])) { const made = item(each, e, open); n += made.length; body.append(...made); }
			if (performance.now() > until) { await pause(); if (mine !== turn) return; until = performance.now() + 12; }
		}
		if (log && seq < log.lines) { const more = h("button", { onclick: () => { more.remove(); fill(each, seq, 0); } }, "Show what follows"); body.append(more); }
		if (!body.childNodes.length) body.append(h("p.none", app.page.content === false ? "Content was left out of this page." : app.store.loaded ? "Nothing was said here." : "Reading …"));
		mark();
	}
	function mark() {
		let near = null;
		for (const each of body.children) { each.classList.remove("on"); if (Number(each.getAttribute("data-seq")) <= (app.at.seq ?? -1) && each.hasAttribute("data-seq")) near = each; }
		if (app.at.seq && near) { near.classList.add("on"); near.scrollIntoView({ block: "nearest" }); }
	}
	function place() {
		const list = threads(), i = Math.max(0, list.findIndex((each) => each.log === app.at.log && (!each.scope || each.scope === (app.store.entry(app.at.log, app.at.seq)?.call ?? "").split("#")[0])));
		pick.replaceChildren(...list.slice(0, 5000).map((each, n) => h("option", { value: String(n) }, `${short(each.label ?? app.nameOf(each.log), 80)}${app.nodeOf(each.log)?.number ? ` #${app.nodeOf(each.log).number}` : ""}`)));
		pick.value = String(i);
		const each = list[i], log = each && app.store.logs.get(each.log);
		// A page of a long thread begins near the entry that was asked for.
		const goal = app.at.log === each?.log ? app.at.seq ?? 0 : 0, from = goal > 2000 ? goal - 200 : 0, key = `${each?.log}:${each?.scope}:${log?.lines}`;
		if (key === drawn && (!goal || body.querySelector(`[data-seq="${goal}"]`) || from === 0)) { mark(); return; }
		drawn = key;
		body.replaceChildren(from ? h("p.quiet", `From entry ${from} on.`) : "");
		if (each) fill(each, from, goal);
	}
	return { element: h("section.view.threadview", { label: "Thread" }, h("div.bar", pick), body), place, update: place, grown: place };
}
