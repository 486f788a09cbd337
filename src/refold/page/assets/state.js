/** The scrubber: what the run knew before and after each entry, and what the entry changed. */
import { choices, h, heads, json, quiet, short } from "./dom.js";
import { summary } from "./data.js";

/** Set a member as data, whatever its name. */
const put = (on, name, value) => Object.defineProperty(on, name, { value, enumerable: true, writable: true, configurable: true });

const namesOf = (pointer) => pointer.split("/").slice(1).map((name) => name.replaceAll("~1", "/").replaceAll("~0", "~"));

/** `["=", pointer, value]` replaces, `"+"` adds or inserts, `["-", pointer]` takes out */
export function applied(state, changes) {
	for (const [sign, pointer, given] of changes ?? []) {
		const value = structuredClone(given), names = namesOf(pointer), last = names.pop();
		if (last === undefined) { state = value ?? {}; continue; }
		let on = state;
		for (const name of names) {
			if (!Object.hasOwn(on, name) || on[name] === null || typeof on[name] !== "object") put(on, name, {});
			on = on[name];
		}
		if (Array.isArray(on) && sign !== "=") on.splice(Number(last), sign === "-" ? 1 : 0, ...(sign === "-" ? [] : [value]));
		else if (sign === "-") delete on[last];
		else put(on, last, value);
	}
	return state;
}

export function state(app) {
	const pick = h("select", { label: "Run", onchange: () => app.select(pick.value, 0) });
	const slide = h("input", { type: "range", min: "0", value: "0", label: "Entry", oninput: () => app.select(app.at.log, Number(slide.value)) });
	const step = (sign, label, by) => h("button", { label, onclick: () => app.select(app.at.log, Math.max(0, Math.min(Number(slide.max), Number(slide.value) + by))) }, sign);
	const now = h("p.now", { role: "status" }), body = h("div.states", { tabindex: "0", role: "region", label: "Before and after" });
	let kept = null;
	const of = (log) => app.store.runs.map((run) => run.states[log]).find(Boolean);
	function after(all, log, seq) {
		if (!kept || kept.of !== all || kept.seq > seq) kept = { log, seq: -1, value: {}, of: all };
		while (kept.seq < seq) kept.value = applied(kept.value, all[++kept.seq]);
		return kept.value;
	}
	function place() {
		const log = app.at.log, each = app.store.logs.get(log), all = of(log), most = Math.max(0, (each?.lines ?? 1) - 1), seq = Math.min(app.at.seq ?? most, most);
		choices(pick, [...app.store.logs.keys()].map((id) => [id, app.nameOf(id)]));
		pick.value = log;
		slide.max = String(most);
		slide.value = String(seq);
		const e = app.store.entry(log, seq);
		slide.setAttribute("aria-valuetext", `entry ${seq}: ${e?.kind ?? ""}`);
		now.replaceChildren(h("strong", `${seq} of ${most}`), " ", h("span.kind", e?.kind ?? "…"), " ", quiet(e ? short(summary(e), 160) : ""));
		if (!all || seq >= all.length) { body.replaceChildren(h("p.none", short(app.page.left_out || "The state after this entry is not on this page."), " Ask ", h("code", `refold show LOG --at ${seq}`), ".")); return; }
		const changes = all[seq] ?? [], before = seq ? structuredClone(after(all, log, seq - 1)) : {}, here = after(all, log, seq);
		const had = (pointer) => namesOf(pointer).reduce((on, name) => (on !== null && typeof on === "object" && Object.hasOwn(on, name) ? on[name] : undefined), before);
		const rows = changes.slice(0, 200).map((change) => { const [sign, pointer, value] = change, was = sign === "+" ? undefined : had(pointer); return h("tr", h("th", { scope: "row" }, pointer || "all of it"), h("td", was === undefined ? "–" : json(was, app.blobOf, 0)), h("td", sign === "-" ? "gone" : json(value, app.blobOf, 0))); });
		body.replaceChildren(
			h("h3", changes.length ? "What changed" : "Nothing changed"),
			rows.length ? h("table", heads("Where", "Before", "After"), h("tbody", rows)) : "",
			h("h3", "The state after it"), json(here, app.blobOf, 1));
	}
	return { element: h("section.view.stateview", { label: "State" }, h("div.bar", pick, step("←", "Entry before", -1), slide, step("→", "Entry after", 1)), now, body), place, update: place, grown: place };
}
