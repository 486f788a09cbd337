/** Two runs side by side: what they share, where they first differ, what each took. */
import { List, count, duration, h, json, money, number, short } from "./dom.js";
import { summary } from "./data.js";

const WORDS = { runs: ["Runs", number], tool_calls: ["Tool calls", number], requests: ["Model requests", number], input_tokens: ["Tokens in", number], output_tokens: ["Tokens out", number], cost_usd_micros: ["Cost", money], time_us: ["Time", duration] };

const SIGNS = { same: ["=", "Both say the same"], changed: ["≠", "Changed"], removed: ["◂", "Only in this run"], added: ["▸", "Only in the other run"] };

const DEEPER = "What it started differs.";
const heads = (...words) => h("thead", h("tr", words.map((word) => h("th", { scope: "col" }, word))));

export function compare(app) {
	const diff = app.page.diff;
	let only = true;
	let rows = [];
	const all = h("input", { type: "checkbox", onchange: () => { only = !all.checked; update(); } });
	const side = (log, seq, change, value, deeper) => {
		const e = log === null || seq === null ? null : app.store.entry(log, seq);
		return h("span.side", e ? [h("span.seq", `${app.nameOf(log, true)} ${seq}`), h("span.kind", e.kind), h("span.what", change ? `${change[0] || "all of it"}: ${value?.absent === true ? "not there" : short(value)}` : summary(e) + deeper)] : h("span.quiet", seq === null ? "not there" : "…"));
	};
	const list = new List({
		label: "Entries of both runs", count: () => rows.length,
		draw: (i) => { const [al, as, bl, bs, status, changes] = rows[i], changed = status === "changed", change = changed && changes[0], deeper = changed && !change ? ` · ${DEEPER}` : "", [sign, word] = SIGNS[status]; return h("div", { class: `pairrow ${status}` }, h("span.sign", { title: word }, sign, h("span.unseen", ` ${word}`)), side(al, as, change, change?.[1], deeper), side(bl, bs, change, change?.[2], deeper)); },
		choose: (i) => show(rows[i]),
	});
	const said = h("span.quiet"), detail = h("div.difference");
	const value = (each) => (each === undefined || each?.absent === true ? h("span.quiet", "not there") : json(each, app.blobOf, 1));
	function show(row) {
		if (!row) return;
		const [al, as, bl, bs, status, changes] = row;
		if (as !== null && as !== undefined) app.select(al, as); else if (bs !== null && bs !== undefined) app.select(bl, bs);
		detail.replaceChildren(h("h3", SIGNS[status][1]), changes?.length ? h("table", heads("Where", "This run", "The other"), h("tbody", changes.slice(0, 100).map((each) => h("tr", h("th", { scope: "row" }, each[0] || "all of it"), h("td", value(each[1])), h("td", value(each[2])))))) : status === "changed" ? h("p.quiet", DEEPER) : "");
	}
	function update() {
		rows = diff.rows.filter((row) => !only || row[4] !== "same");
		said.textContent = `${count(rows.length, "row")}${only ? ` that differ, of ${number(diff.rows.length)}` : ""}`;
		list.draw();
	}
	const next = () => { if (!rows.length) return; const at = rows.findIndex((row, i) => i > list.active && row[4] !== "same"); list.show(at < 0 ? rows.findIndex((row) => row[4] !== "same") : at, true); show(rows[list.active]); };
	const first = diff.first;
	const pinned = h("div", { class: `pinned ${first || diff.identical === false ? "bad" : "good"}` }, h("h3", diff.error ? "They cannot be compared" : first ? "They first differ here" : diff.identical === false ? "They differ, in no entry" : "No difference"), h("p", short(diff.error ?? first?.what ?? (diff.identical === false ? "" : "All that is compared is the same."), 500)),
		diff.runs.length ? h("p.quiet", `Whole runs differ, too: ${short(diff.runs.map((each) => `${each.where} (${each.category})`).join(", "), 600)}.`) : null, diff.notes.slice(0, 20).map((note) => h("p.quiet", short(note, 300))),
		first ? h("button", { onclick: () => { const i = rows.findIndex((row) => first.a && row[0] === first.a[0] && row[1] === first.a[1] || first.b && row[2] === first.b[0] && row[3] === first.b[1]); if (i >= 0) { list.show(i, true); show(rows[i]); } else if (first.a ?? first.b) app.select(...(first.a ?? first.b)); } }, "Show it") : null);
	const sums = h("table.sums", heads("", "This run", "The other", "Change"), h("tbody", Object.entries(diff.table).map(([name, pair]) => { const [a, b] = pair, [word, form] = WORDS[name] ?? [name, number]; return h("tr", h("th", { scope: "row" }, word), h("td", form(a)), h("td", form(b)), h("td", typeof a === "number" && typeof b === "number" ? (a === b ? "=" : `${a > b ? "+" : "−"}${b ? `${Math.round((Math.abs(a - b) / b) * 100)} %` : form(a)}`) : "–")); })));
	return {
		element: h("section.view.compareview", { label: "Compare" }, h("div.tops", pinned, sums), h("div.bar", h("label", all, " Show what is the same, too"), h("button", { onclick: next }, "Next difference (d)"), said), list.element, detail),
		list, update, place: update, grown: update, next,
	};
}
