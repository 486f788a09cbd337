/** What the views read of a run: who is where, what a query finds, who was busy when. Pure. */
import { brief, duration, faultOf, snippet } from "./words.js";

const FINE = new Set([
	"completed",
	"ok",
	"running",
	"waits_for_you",
	"broke_off",
	"unfinished",
	"open",
	"",
	"late",
	"cancelled",
]);

/** @param {string} status */
export const isBad = (status) => !FINE.has(status);

/** What `make` returns for a value that never changes: made once.
 * @template {object} T @template R @param {(value: T) => R} make @returns {(value: T) => R} */
export function once(make) {
	/** @type {WeakMap<T, R>} */
	const known = new WeakMap();
	return (value) => {
		if (!known.has(value)) known.set(value, make(value));
		return /** @type {R} */ (known.get(value));
	};
}

/** Values by a key that several may have. @template K, T
 * @param {T[]} values @param {(value: T) => K} keyOf @returns {Map<K, T[]>} */
export function grouped(values, keyOf) {
	const found = new Map();
	for (const each of values) if (!found.get(keyOf(each))?.push(each)) found.set(keyOf(each), [each]);
	return found;
}

const indexed = once((/** @type {Agent[]} */ agents) => ({
	byKey: new Map(agents.map((agent) => [agent.key, agent])),
	children: grouped(agents, (agent) => agent.parent),
}));

/** The agents of a run by key, and by the agent above. @param {Run} run */
export const index = (run) => indexed(run.agents);

/** @param {Agent | null | undefined} agent */
export const nameOf = (agent) =>
	agent ? `${agent.name || "rejected"}${agent.number ? ` #${agent.number}` : ""}` : "";

/** How long it ran, in words; empty if that is not known. @param {Agent} agent */
export function timeOf(agent) {
	if (agent.duration_ms === null || agent.status === "rejected") return "";
	const [from, to] = agent.interval;
	return duration(agent.duration_ms * 1000 || (to ?? 0) - (from ?? 0));
}

/** Whether two of the agents were at work at the same time. @param {Agent[]} agents */
export function areParallel(agents) {
	const spans = agents.map((agent) => agent.interval).filter(([from]) => from !== null);
	spans.sort((a, b) => Number(a[0]) - Number(b[0]));
	return spans.some(
		([from], i) => i > 0 && Number(from) < Math.max(...spans.slice(0, i).map(([, to]) => to ?? Infinity)),
	);
}

/** Why not all of an agent's log can be read; empty if it can. @param {Agent} agent */
export const unreadOf = ({ log_state: state }) =>
	state === "read" || state === "none" ? "" : `its log is ${state === "foreign" ? "another run's" : state}`;

/** How many calls and requests of an agent failed. @param {Agent} agent */
export const failedIn = (agent) =>
	agent.tools.reduce((n, use) => n + use.failed, 0) +
	Object.values(agent.requests_failed ?? {}).reduce((n, each) => n + Number(each), 0);

/** @param {Agent} agent */
export const isRed = (agent) => isBad(agent.status) || failedIn(agent) > 0;

/** Every place that is red, in the order of the agents: an agent, a turn, or a step of it.
 * @param {Run} run */
export function failures(run) {
	/** @type {Spot[]} */
	const found = [];
	for (const agent of run.agents) {
		if (isBad(agent.status)) found.push({ agent: agent.key, turn: null, step: null });
		agent.turns.forEach((turn, n) => {
			if (turn.error) found.push({ agent: agent.key, turn: n, step: null });
			turn.steps.forEach((step, i) => {
				if (isBad(step.status) && !step.child) found.push({ agent: agent.key, turn: n, step: i });
			});
		});
	}
	return found;
}

/** The next of some places; if none is chosen, the first one of this agent, or of all.
 * @param {Spot[]} places @param {Spot} at @param {number} by */
export function nextOf(places, at, by) {
	const isHere = places.map(
		({ agent, turn, step }) => agent === at.agent && turn === at.turn && step === at.step,
	);
	const now = by > 0 ? isHere.lastIndexOf(true) : isHere.indexOf(true);
	const near = places.findIndex(({ agent }) => agent === at.agent);
	const to = now >= 0 ? now + by : near >= 0 ? near : by > 0 ? 0 : -1;
	return places.at(to % places.length);
}

/** What a step was asked, as one text: the member that says most stands alone. @param {Step} step */
export function aboutOf({ kind, about }) {
	if (about === null || typeof about !== "object") return String(about ?? "");
	if (kind === "limit") return `${about.limit}: ${about.observed} of ${about.allowed}`;
	const names = [
		"command",
		"file_path",
		"path",
		"pattern",
		"url",
		"query",
		"question",
		"text",
		"description",
	];
	const said = names.map((name) => about[name]).find((each) => typeof each === "string");
	return said ?? brief(about, 2000);
}

/** Whole values as text, to copy and to search. @param {any} value */
export const textOf = (value) =>
	typeof value === "string" ? value : value === null ? "" : (JSON.stringify(value, null, 1) ?? "");

/** The messages of the prompt at a turn, in their places: kept, added and dropped.
 * @param {Agent} agent @param {number} at @returns {{ how: string, message: Message }[]} */
export function prompt(agent, at) {
	/** @type {Message[]} */
	let before = [];
	for (let n = 0; n <= at; n++) {
		const turn = agent.turns[n];
		if (!turn.n) continue;
		const end = before.length - turn.kept_at_end;
		const kept = before.slice(0, turn.kept);
		const last = before.slice(end);
		if (n === at) {
			/** @type {(how: string) => (message: Message) => { how: string, message: Message }} */
			const as = (how) => (message) => ({ how, message });
			return [
				...kept.map(as("kept")),
				...turn.dropped.map(as("dropped")),
				...turn.added.map(as("added")),
				...last.map(as("kept")),
			];
		}
		before = [...kept, ...turn.added, ...last];
		if (turn.entries.length > 1 && !turn.error) {
			const calls = turn.steps
				.filter((step) => step.kind === "tool" || step.kind === "child")
				.map((step) => step.name);
			before.push({ role: "assistant", text: turn.says, calls });
		}
	}
	return [];
}

// --- the query

/** @param {Query} query */
export const isAsked = (query) => Object.values(query).some(Boolean);

/** @param {string} wanted @param {string} status */
const hasStatus = (wanted, status) =>
	wanted === "failed" ? isBad(status) : wanted === status || (wanted === "completed" && status === "ok");

/** Whether an agent passes what a query says of agents. @param {Agent} agent @param {Query} query */
const isOf = (agent, query) =>
	(!query.agent || agent.name === query.agent) &&
	(!query.files || agent.files.some((file) => file.path === query.files));

/** Everything that a query finds: each call, answer and task once. @param {Run} run @param {Query} query */
export function search(run, query) {
	/** @type {Hit[]} */
	const hits = [];
	const text = query.text.toLowerCase();
	const { byKey } = index(run);
	/** @param {string} said */
	const holds = (said) => !text || said.toLowerCase().includes(text);
	for (const agent of run.agents) {
		if (!isOf(agent, query)) continue;
		/** @param {string} what @param {string} said @param {number | null} turn @param {number | null} step */
		const add = (what, said, turn = null, step = null, status = agent.status) =>
			hits.push({ agent, turn, step, what, snippet: snippet(said, query.text), status });
		const isWhole = !query.tool;
		const agentFits = !query.status || hasStatus(query.status, agent.status);
		const fault = faultOf(agent.error);
		const asked = [
			nameOf(agent),
			agent.told,
			agent.tool,
			fault,
			agent.standing,
			...Object.values(agent.notable),
			...agent.models,
		];
		if (isWhole && agentFits && (text || query.status || !query.files)) {
			const said = asked.find((each) => each && holds(each));
			if (said !== undefined)
				add(said === agent.told ? "told" : "agent", text ? said : fault || agent.told, null, null);
		}
		agent.turns.forEach((turn, n) => {
			if (isWhole && text && !query.status) {
				if (holds(turn.says)) add("said", turn.says, n);
				for (const message of turn.added) {
					if (
						message.role !== "tool" &&
						!(message.role === "user" && agent.told.includes(message.text)) &&
						holds(message.text)
					)
						add(message.role, message.text, n);
				}
			}
			if (isWhole && turn.error && (!query.status || query.status === "failed") && (text || query.status)) {
				if (holds(faultOf(turn.error))) add("request", faultOf(turn.error), n, null, "error");
			}
			turn.steps.forEach((step, i) => {
				if (query.tool && step.name !== query.tool) return;
				if (query.status && !hasStatus(query.status, step.status)) return;
				// What a subagent was told and answered is found in the subagent.
				if (byKey.has(step.child) && !query.tool) return;
				const about = textOf(step.about);
				const gave = faultOf(step.error) || step.result;
				if (query.files && !query.tool && !about.includes(query.files)) return;
				if (!text && !query.tool && !query.status && !query.files) return;
				if (holds(about)) add(step.name, text ? about : aboutOf(step), n, i, step.status);
				else if (holds(gave) || holds(step.name)) add(step.name, gave, n, i, step.status);
			});
		});
	}
	return hits;
}

/** What can be chosen: each status, tool, agent and file of a run, with how often. @param {Run} run */
export function choices(run) {
	/** @type {Record<string, Map<string, number>>} */
	const found = { status: new Map(), tool: new Map(), agent: new Map(), files: new Map() };
	/** @param {string} what @param {string} value */
	const add = (what, value, n = 1) => value && found[what].set(value, (found[what].get(value) ?? 0) + n);
	for (const agent of run.agents) {
		add("status", isBad(agent.status) ? "failed" : agent.status);
		add("agent", agent.name);
		for (const use of agent.tools) {
			add("tool", use.tool, use.called);
			add("status", "failed", use.failed);
		}
		for (const file of agent.files) add("files", file.path);
	}
	return found;
}

/** The rows of the outline: agents that are not folded away; of a query, those with hits and those above.
 * @param {Run} run @param {Set<string>} folded @param {Set<string> | null} only */
export function outline(run, folded, only = null) {
	const { byKey } = index(run);
	/** @type {Set<string> | null} */
	const kept = only && new Set();
	for (const key of only ?? []) {
		for (let at = byKey.get(key); at && !kept?.has(at.key); at = byKey.get(at.parent ?? ""))
			kept?.add(at.key);
	}
	/** @type {Agent[]} */
	const rows = [];
	let under = Infinity;
	for (const agent of run.agents) {
		if (agent.depth > under) continue;
		under = folded.has(agent.key) ? agent.depth : Infinity;
		if (!kept || kept.has(agent.key)) rows.push(agent);
	}
	return rows;
}

// --- time

/** Of steps that take time. @type {Record<string, string>} */
const KINDS = { tool: "tool", child: "wait", input: "wait", timer: "wait", limit: "limit", aside: "model" };

const drawn = once((/** @type {Turn[]} */ turns) => {
	/** @type {Bar[]} */
	const found = [];
	turns.forEach((turn, n) => {
		/** @param {string} kind @param {string} name @param {Interval} interval @param {string} status */
		const add = (kind, name, [from, to], status, step = /** @type {number | null} */ (null)) =>
			found.push({ kind, name, from, to, status, turn: n, step });
		if (turn.n) add("model", turn.model, turn.interval, turn.error ? "error" : turn.status);
		turn.steps.forEach(({ kind, name, child, interval, status }, i) => {
			if (kind in KINDS) add(child ? "wait" : KINDS[kind], name, interval, child ? "" : status, i);
		});
	});
	return found.sort((a, b) => a.from - b.from);
});

/** What an agent did, as bars in the order of their beginning. @param {Agent} agent */
export const bars = (agent) => drawn(agent.turns);

/** When an agent began and ended; one that has no end lasts to the end of the run.
 * @param {Agent} agent @param {number} span @returns {[number, number] | null} */
export function lifeOf(agent, span) {
	const [from, to] = agent.interval;
	if (from === null) return null;
	const last = agent.status === "running" ? span : (to ?? span);
	return [from, Math.max(from, last)];
}

const spanned = once((/** @type {Agent[]} */ agents) =>
	agents.reduce((span, { interval: [from, to] }) => Math.max(span, from ?? 0, to ?? 0), 1),
);

/** The last moment of a run. @param {Run} run */
export const spanOf = (run) => spanned(run.agents);

/** How long at least one of some intervals lasts, within two moments.
 * @param {[number, number][]} intervals @param {number} from @param {number} to */
export function covered(intervals, from, to) {
	let sum = 0;
	let at = from;
	for (const [start, end] of [...intervals].sort((a, b) => a[0] - b[0])) {
		const last = Math.min(end, to);
		if (last <= at) continue;
		sum += last - Math.max(start, at);
		at = last;
	}
	return Math.max(0, sum);
}

/** What some agents did from one moment to another: time by kind, calls, failures, tokens and cost.
 * An agent's own time is that in which it neither asked, nor called, nor waited.
 * @param {Agent[]} agents @param {number} span @param {number} from @param {number} to */
export function sums(agents, span, from = 0, to = span) {
	const found = {
		model: 0,
		tool: 0,
		wait: 0,
		own: 0,
		agents: 0,
		calls: 0,
		requests: 0,
		failed: 0,
		tokens: 0,
		micros: 0,
	};
	for (const agent of agents) {
		const life = lifeOf(agent, span);
		if (!life || life[1] < from || life[0] > to) continue;
		found.agents++;
		/** @type {Record<string, [number, number][]>} */
		const by = { model: [], tool: [], wait: [] };
		for (const bar of bars(agent)) {
			const end = bar.to ?? life[1];
			if (end < from || bar.from > to || !(bar.kind in by)) continue;
			by[bar.kind].push([bar.from, end]);
			found.failed += isBad(bar.status) ? 1 : 0;
			found.calls += bar.kind === "tool" ? 1 : 0;
			if (bar.kind !== "model") continue;
			found.requests++;
			const usage = agent.turns[bar.turn].usage ?? {};
			found.tokens += (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);
			found.micros += usage.cost_usd_micros ?? 0;
		}
		const busy = [...by.model, ...by.tool];
		const whole = [Math.max(life[0], from), Math.min(life[1], to)];
		const alive = Math.max(0, whole[1] - whole[0]);
		const worked = covered(busy, whole[0], whole[1]);
		const all = covered([...busy, ...by.wait], whole[0], whole[1]);
		found.model += covered(by.model, whole[0], whole[1]);
		found.tool += covered(by.tool, whole[0], whole[1]);
		found.wait += all - worked;
		found.own += alive - all;
	}
	return found;
}

/** The agents that the steps of some turns started. */
export const started = once(
	(/** @type {Turn[]} */ turns) => new Set(turns.flatMap((turn) => turn.steps.map((step) => step.child))),
);

/** The same of a whole run, and of one agent in it. */
export const sumsOfRun = once((/** @type {Run} */ run) => sums(run.agents, spanOf(run)));
/** @param {Agent} agent @param {number} span */
export function sumsOf(agent, span) {
	const made = summed(agent);
	return made.get(span) ?? made.set(span, sums([agent], span)).get(span);
}
const summed = once((/** @type {Agent} */ _) => /** @type {Map<number, any>} */ (new Map()));

/** A row of steps: subagents that were started one after the other are one group.
 * @param {Step[]} steps @param {(key: string) => boolean} isKnown */
export function groups(steps, isKnown) {
	/** @type {{ children: number[], step: number }[]} */
	const found = [];
	steps.forEach((step, i) => {
		const isChild = isKnown(step.child);
		const last = found.at(-1);
		if (isChild && last?.children.length) last.children.push(i);
		else found.push({ children: isChild ? [i] : [], step: i });
	});
	return found;
}

// --- what changes

/** The value after a patch: `{"=": value}`, or of an object or a list `{"~": {member: patch}, "n": length}`.
 * What did not change is the same object as before. @param {any} value @param {any} patch @returns {any} */
export function apply(value, patch) {
	if ("=" in patch) return patch["="];
	const made = Array.isArray(value) ? value.slice(0, patch.n) : { ...value };
	for (const [name, change] of Object.entries(patch["~"])) {
		const was = Object.hasOwn(made, name) ? made[name] : undefined;
		const now = apply(was, change);
		Object.defineProperty(made, name, { value: now, enumerable: true, writable: true, configurable: true });
	}
	for (const name of patch["-"] ?? []) delete made[name];
	return made;
}

// --- the address

/** @type {Query} */
export const NO_QUERY = { text: "", status: "", tool: "", agent: "", files: "" };
/** @type {Place} */
export const NO_PLACE = {
  view: "", agent: "", turn: null, step: null, log: "", seq: null, tab: "", from: null, to: null, cause: 0,
}; // prettier-ignore
const NUMBERS = new Set(["turn", "step", "seq", "from", "to", "cause"]);
/** `agent` is where one is; who is looked for has another name. */
const SPELLED = { agent: "by" };

/** @param {Query} query @param {Place} at */
export function address(query, at) {
	const said = new URLSearchParams();
	for (const [name, value] of Object.entries(at)) {
		if (value !== /** @type {any} */ (NO_PLACE)[name] && value !== null) said.set(name, String(value));
	}
	for (const [name, value] of Object.entries(query)) {
		if (value) said.set(/** @type {any} */ (SPELLED)[name] ?? name, value);
	}
	return `#${said}`;
}

/** @param {string} hash @returns {{ query: Query, at: Place }} */
export function placed(hash) {
	const said = new URLSearchParams(hash.replace(/^#/, ""));
	/** @type {any} */
	const query = { ...NO_QUERY };
	/** @type {any} */
	const at = { ...NO_PLACE };
	for (const name of Object.keys(query))
		query[name] = said.get(/** @type {any} */ (SPELLED)[name] ?? name) ?? "";
	for (const name of Object.keys(at)) {
		const value = said.get(name);
		if (value === null) continue;
		at[name] = NUMBERS.has(name) ? (/^\d+$/.test(value) ? Number(value) : at[name]) : value;
	}
	return { query, at };
}
