/** Two runs side by side: what they share, where they first differ, what each took. */
import { List, count, duration, h, heads, json, money, number, quiet, short, to } from "./dom.js";
import { summary } from "./data.js";

const FORMS = { cost_usd_micros: money, time_us: duration };
const SIGNS = { same: ["=", "Equal"], changed: ["≠", "Changed"], removed: ["◂", "Only in this run"], added: ["▸", "Only in the other run"] };

/** How many causes are shown above the rows. */
const CAUSES = 20;

export function compare(app) {
	const diff = app.page.diff;
	let only = true;
	let rows = [];
	const all = h("input", { type: "checkbox", onchange: () => { only = !all.checked; update(); } });
	const side = (log, seq, change, value) => {
		const e = log === null || seq === null ? null : app.store.entry(log, seq);
		return h("span.side", e ? [h("span.seq", `${app.nameOf(log, true)} ${seq}`), h("span.kind", e.kind), h("span.what", change ? `${change[0] || "all of it"}: ${value?.absent === true ? "not there" : short(value)}` : summary(e))] : quiet(seq === null ? "not there" : "…"));
	};
	const list = new List({
		label: "Entries of both runs", count: () => rows.length,
		draw: (i) => { const [al, as, bl, bs, status, changes] = rows[i], change = status === "changed" && changes[0], [sign, word] = SIGNS[status]; return h("div", { class: `pairrow ${status}` }, h("span.sign", { title: word }, sign, h("span.unseen", ` ${word}`)), side(al, as, change, change?.[1]), side(bl, bs, change, change?.[2])); },
		choose: (i) => go(rows[i]),
	});
	const said = h("span.quiet"), detail = h("div.difference");
	const value = (each) => (each === undefined || each?.absent === true ? quiet("not there") : json(each, app.blobOf, 1));
	const go = ([al, as, bl, bs]) => (as === null ? app.select(bl, bs) : app.select(al, as));
	const at = () => { const { log, seq } = app.at; return rows.findIndex(([al, as, bl, bs]) => (al === log && as === seq) || (bl === log && bs === seq)); };
	/** Show the row of the entry that is chosen. */
	function place() {
		const i = at();
		if (i < 0) { list.draw(); return; }
		list.show(i, true);
		const [, , , , status, changes] = rows[i];
		detail.replaceChildren(h("h3", SIGNS[status][1]), changes?.length ? h("table", heads("Where", "This run", "The other"), h("tbody", changes.slice(0, 100).map((each) => h("tr", h("th", { scope: "row" }, each[0] || "all of it"), h("td", value(each[1])), h("td", value(each[2])))))) : "");
	}
	function update() {
		rows = diff.rows.filter((row) => !only || row[4] !== "same");
		said.textContent = `${count(rows.length, "row")}${only ? ` that differ, of ${number(diff.rows.length)}` : ""}`;
		place();
	}
	const next = () => { const differ = (from) => rows.find((row, i) => i > from && row[4] !== "same"), row = differ(list.active) ?? differ(-1); if (row) go(row); };
	const cause = ({ title, words, follows, a, b }) => [h("p", short(title, 500)), words.length ? h("pre.text", words.join("\n")) : null, follows ? h("p.quiet", `then ${count(follows, "later difference")}`) : null,
		a ?? b ? h("a.button", { href: to(...(a ?? b), "compare") }, "Show it") : null];
	const pinned = h("div", { class: `pinned ${diff.identical ? "good" : "bad"}` }, h("h3", diff.title), diff.error ? h("p", short(diff.error, 500)) : null, diff.causes.slice(0, CAUSES).map(cause),
		diff.causes.length > CAUSES ? h("p.quiet", `${count(diff.causes.length - CAUSES, "more cause")}`) : null, diff.notes.slice(0, 20).map((note) => h("p.quiet", short(note, 300))));
	const sums = h("table.sums", heads("", "This run", "The other"), h("tbody", Object.entries(diff.table).map(([name, [a, b]]) => { const form = FORMS[name] ?? number; return h("tr", h("th", { scope: "row" }, diff.labels[name]), h("td", form(a)), h("td", form(b))); })));
	return {
		element: h("section.view.compareview", { label: "Compare" }, h("div.tops", pinned, sums), h("div.bar", h("label", all, " Show equal entries too"), h("button", { onclick: next }, "Next difference (d)"), said), list.element, detail),
		list, update, place, grown: update, next,
	};
}
