/** The pure functions of the page: what a query finds, what changes, where one is. `node --test`. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { stateAt, statusOf } from "../../../src/refold/page/assets/data.js";
import * as model from "../../../src/refold/page/assets/model.js";
import * as words from "../../../src/refold/page/assets/words.js";
import { lexer } from "../../../src/refold/page/assets/vendor/marked.js";

const step = (name, about, result, more = {}) => ({
	kind: "tool", name, about, result, status: "ok", error: null, interval: [10, 20], child: "", entries: [1, 2], call: name, ...more,
}); // prettier-ignore
const turn = (n, says, steps = [], more = {}) => ({
	n, kept: 0, kept_at_end: 0, added: [], dropped: [], model: "m", says, status: "ok", error: null,
	usage: { input_tokens: 3, output_tokens: 2 }, spent: "", interval: [0, 10], entries: [n, n + 1], steps, ...more,
}); // prettier-ignore
const agent = (key, parent, turns, more = {}) => ({
	key, parent, depth: parent === null ? 0 : 1, name: key, number: 0, status: "completed", standing: "", told: `do ${key}`,
	answered: "", error: null, files: [], notable: {}, models: [], tools: [], tool: "", below: 0, interval: [0, 100], turns, ...more,
}); // prettier-ignore
const NONE = model.NO_QUERY;

const broken = step("edit", { file_path: "a.py" }, "", { status: "error", error: { code: "raised", message: "no such words" } });
const run = {
	agents: [
		agent("lead", null, [turn(1, "I ask.", [step("task", { prompt: "do child" }, "It needs work.", { child: "child" })])], { below: 1 }),
		agent("child", "lead", [turn(1, "", [step("read", { file_path: "a.py" }, "needs nothing"), broken]), turn(2, "It needs work.")], {
			tools: [{ tool: "read", called: 1, failed: 0 }, { tool: "edit", called: 1, failed: 1 }],
			files: [{ path: "a.py", change: "changed", lines_added: 2, lines_removed: 1, is_sole: true }],
		}),
	],
	main: "lead",
	logs: [],
}; // prettier-ignore

test("a call with its result is one place, and what a subagent said is found in the subagent alone", () => {
	const hits = model.search(run, { ...NONE, text: "needs work" });
	assert.deepEqual(hits.map((hit) => [hit.agent.key, hit.turn, hit.step, hit.what]), [["child", 1, null, "said"]]);
	assert.match(hits[0].snippet, /needs work/);
	assert.equal(model.search(run, { ...NONE, text: "a.py" }).length, 2);
});

test("a query of a tool, a status or a file finds calls", () => {
	const names = (query) => model.search(run, { ...NONE, ...query }).map((hit) => hit.what);
	assert.deepEqual(names({ tool: "read" }), ["read"]);
	assert.deepEqual(names({ status: "failed" }), ["edit"]);
	assert.deepEqual(names({ files: "a.py" }), ["read", "edit"]);
	assert.deepEqual(names({ agent: "lead", tool: "read" }), []);
});

test("what is red is gone through in order", () => {
	assert.deepEqual(model.failures(run), [{ agent: "child", turn: 0, step: 1 }]);
});

test("the next place is another one, also where several are in one turn", () => {
	const at = (agent, turn, step = null) => ({ agent, turn, step });
	const places = [at("a", 0), at("b", 1), at("b", 1), at("c", 0, 2)];
	const seen = (from, by) => places.indexOf(model.nextOf(places, from, by));
	assert.deepEqual([seen(at("a", 0), 1), seen(at("b", 1), 1), seen(at("c", 0, 2), 1)], [1, 3, 0]);
	assert.deepEqual([seen(at("c", 0, 2), -1), seen(at("b", 1), -1), seen(at("a", 0), -1)], [2, 0, 3]);
	assert.deepEqual([seen(at("b", 7), 1), seen(at("x", 0), 1), seen(at("x", 0), -1)], [1, 0, 3]);
	assert.equal(model.nextOf([], at("a", 0), 1), undefined);
});

test("a step says what it is about in one text", () => {
	const about = (about, kind = "tool") => model.aboutOf({ kind, about });
	assert.deepEqual([about(null), about("all"), about({ n: 1, path: "a.py" })], ["", "all", "a.py"]);
	assert.equal(about({ question: "May I?", schema: {} }, "input"), "May I?");
	assert.equal(about({ limit: "depth", observed: 3, allowed: 2 }, "limit"), "depth: 3 of 2");
	assert.equal(about({ n: 1, on: [true] }), "n: 1, on: [true]");
});

test("a cost is what is known of it, and says if that is not all", () => {
	const cost = (all, known = 0, unpriced = 0) =>
		words.costOf({ usage: { cost_usd_micros: all }, priced: { usd_micros: known, unpriced } });
	assert.deepEqual([cost(null), cost(1_200_000), cost(null, 210_000, 1)], ["", "$1.20", "≥ $0.21"]);
	assert.deepEqual([1_794, 40_000, 0, 15].map((each) => cost(each)), ["$0.0018", "$0.040", "$0.00", "$0.000015"]);
	assert.equal(words.tokensOf("1,945 tokens (900 from the cache), $0.0123"), "1,945 tokens (900 from the cache)");
	assert.equal(words.tokensOf("9 tokens, at least $0.2 (1 answer not counted)"), "9 tokens");
	assert.equal(words.tokensOf("9 tokens, cost –"), "9 tokens");
}); // prettier-ignore

test("a word of a command is quoted if a shell would read it", () => {
	assert.deepEqual(["runs/a-1.jsonl", "it's; rm -rf ~", "0#1=true", ""].map(words.quoted), [
		"runs/a-1.jsonl", "'it'\\''s; rm -rf ~'", "'0#1=true'", "''",
	]);
}); // prettier-ignore

test("a file is told in one line", () => {
	const [file] = run.agents[1].files;
	assert.equal(words.fileText(file), "~ a.py +2 -1");
	const added = { ...file, change: "added", lines_added: null, is_sole: false };
	assert.equal(words.fileText(added), "+ a.py (perhaps by others)");
});

test("the outline keeps those above a hit", () => {
	const keys = (folded, only) => model.outline(run, new Set(folded), only && new Set(only)).map((each) => each.key);
	assert.deepEqual(keys([], null), ["lead", "child"]);
	assert.deepEqual(keys(["lead"], null), ["lead"]);
	assert.deepEqual(keys([], ["child"]), ["lead", "child"]);
	assert.deepEqual(keys([], []), []);
});

test("the sums of a time count what overlaps once", () => {
	assert.equal(model.covered([[0, 10], [5, 20], [30, 40]], 0, 35), 25);
	const all = model.sums([run.agents[1]], 100);
	assert.deepEqual([all.model, all.tool, all.own, all.calls, all.failed, all.tokens], [10, 10, 80, 2, 1, 10]);
	assert.equal(model.sums([run.agents[1]], 100, 50, 60).own, 10);
}); // prettier-ignore

test("a prompt has the messages that were kept, dropped and added in their places", () => {
	const message = (text) => ({ role: "user", text, calls: [] });
	const turns = [
		turn(1, "yes", [], { added: [message("a"), message("b")] }),
		turn(2, "", [], { kept: 1, kept_at_end: 1, dropped: [message("b")], added: [message("c")] }),
	];
	const found = model.prompt(agent("x", null, turns), 1).map(({ how, message: { text } }) => [how, text]);
	assert.deepEqual(found, [["kept", "a"], ["dropped", "b"], ["added", "c"], ["kept", "yes"]]);
}); // prettier-ignore

test("subagents that were started one after the other are one group", () => {
	const rows = model.groups([step("a"), step("b", "", "", { child: "x" }), step("c", "", "", { child: "y" }), step("d")], (key) => key !== "");
	assert.deepEqual(rows.map((each) => each.children), [[], [1, 2], []]);
}); // prettier-ignore

test("a patch leaves what did not change as it is", () => {
	const before = { a: { deep: [1, { x: 1 }, 3] }, b: { kept: 1 }, c: 1 };
	const after = model.apply(before, { "~": { a: { "~": { deep: { "~": { 1: { "~": { x: { "=": 2 } }, "-": [] }, 3: { "=": 4 } }, n: 4 } }, "-": [] } }, "-": ["c"] });
	assert.deepEqual(after, { a: { deep: [1, { x: 2 }, 3, 4] }, b: { kept: 1 } });
	assert.equal(after.b, before.b);
	assert.deepEqual(before.a.deep, [1, { x: 1 }, 3]);
	assert.equal(Object.getPrototypeOf(model.apply({}, { "~": JSON.parse('{"__proto__": {"=": {"polluted": 1}}}'), "-": [] })), Object.prototype);
	assert.equal({}.polluted, undefined);
}); // prettier-ignore

test("an address leads to the same place and query", () => {
	const query = { ...NONE, text: "a b&c#d", agent: "reader" };
	const at = { ...model.NO_PLACE, agent: "0/1:2", turn: 3, step: 0, log: "ab.jsonl", seq: 7 };
	assert.deepEqual(model.placed(model.address(query, at)), { query, at });
	assert.equal(model.address(NONE, model.NO_PLACE), "#");
	assert.deepEqual(model.placed("#turn=x&seq=-1&__proto__=1").at, model.NO_PLACE);
});

test("what is searched is marked wherever it stands", () => {
	assert.deepEqual(words.split("Ab ab", "AB"), [["Ab", true], [" ", false], ["ab", true]]);
	assert.deepEqual(words.split("no", ""), [["no", false]]);
	assert.match(words.snippet("x".repeat(500) + "needle" + "y".repeat(500), "needle"), /^….*needle.*…$/);
}); // prettier-ignore

test("text has no character that hides or moves others", () => {
	assert.equal(words.visible("a\u202eb\x1b\u{e0041}\n\t"), "a\\u202eb\\x1b\\u{e0041}\n\t");
	const joined = ["👩\u200d👩\u200d👧", "❤\ufe0f\u200d🔥", "👩🏽\u200d🚀", "می\u200cخواهم", "क्\u200dष"];
	assert.deepEqual(joined.map(words.visible), joined);
	assert.deepEqual(["a\u200db", "👩\u200d", "\u200dक", "م\u200bم"].map(words.visible), [
		"a\\u200db", "👩\\u200d", "\\u200dक", "م\\u200bم",
	]); // prettier-ignore
	assert.equal(words.short("x".repeat(400), 10), `${"x".repeat(10)}…`);
});

test("the lexer keeps markup as text", () => {
	const raw = "<img src=x onerror=1>";
	assert.equal(lexer(raw).map((token) => token.raw).join(""), raw);
}); // prettier-ignore

test("the state after an entry is that of all before it", () => {
	const { before, changed, after } = stateAt([{ a: 1, b: 1 }, { b: 2 }, { a: 3 }], 1);
	assert.deepEqual([before.get("b"), changed, after.get("a"), after.get("b")], [1, [["b", 2]], 1, 2]);
});

test("agents are parallel only if their times overlap", () => {
	const at = (from, to) => agent(`${from}`, "lead", [], { interval: [from, to], duration_ms: 0 });
	assert.equal(model.areParallel([at(0, 5), at(5, 9)]), false);
	assert.equal(model.areParallel([at(6, 9), at(0, 8), at(1, 2)]), true);
	assert.equal(model.areParallel([at(0, null), at(7, 8)]), true);
	assert.equal(model.areParallel([at(0, 5)]), false);
	assert.match(model.timeOf(at(100, 263)), /163/);
	const resumed = agent("r", "lead", [], { interval: [0, 9e9], duration_ms: 276 });
	assert.equal(model.timeOf(resumed), "276 ms"); // as `refold show` says: without the pause
});

test("the status of an answer on the wire is that of HTTP", () => {
	const wire = (status) => ({ kind: "x-refold.wire", data: { status } });
	assert.deepEqual([200, 429].map((each) => statusOf(wire(each))), ["", "error"]);
	assert.equal(statusOf({ kind: "tool.returned", data: { status: "ok" } }), "ok");
});
