/** One agent: what it was told, what it answered, and its turns: prompt, answer, calls, subagents. */
import { Component } from "./vendor/preact.js";
import { h } from "./dom.js";
import {
	NO_PLACE,
	NO_QUERY,
	aboutOf,
	address,
	areParallel,
	failedIn,
	groups,
	index,
	isBad,
	isRed,
	nameOf,
	once,
	prompt,
	spanOf,
	started,
	sumsOf,
	textOf,
	timeOf,
	unreadOf,
} from "./model.js";
import {
	Changes,
	Copy,
	Diff,
	Ended,
	Folded,
	Icon,
	Markdown,
	Sign,
	Status,
	Tool,
	Value,
	copied,
	highlighted,
	isFound,
	more,
} from "./parts.js";
import { set, state } from "./store.js";
import { SHARES } from "./timeline.js";
import { costOf, count, duration, faultOf, first, number, short, words } from "./words.js";

const TURNS = 40;
const STEPS = 100;

/** @param {Interval} interval */
const took = ([from, to]) => (to !== null && to > from ? duration(to - from) : "");

/** @param {Partial<Place>} at */
const linkTo = (at) => location.href.replace(/#.*/, "") + address(NO_QUERY, { ...NO_PLACE, ...at });

/** What was spent, without a cost that is not known. @param {string} spent */
const plain = (spent) => spent.replace(/, cost –$/, "");

/** @param {string} key */
export const go = (key) => set({ at: { agent: key, turn: null, step: null } }, true);

/** A link to an agent. @param {Agent} agent @param {string} kind @param {any[]} inside @param {any} [more] */
export const linked = (agent, kind, inside, more) =>
	h(
		kind,
		{
			...more,
			href: `#agent=${encodeURIComponent(agent.key)}`,
			onClick: (e) => (e.preventDefault(), go(agent.key)),
		},
		inside,
	);

/** The entry of a step or turn, in the drawer. @param {{ agent: Agent, entries: number[], at: Partial<Place> }} props */
function Tools({ agent, entries, at }) {
	const seq = entries.at(-1);
	const place = { agent: agent.key, ...at };
	return h(
		"span.tools",
		h(Copy, { text: () => linkTo(place), what: "a link to this", icon: "link" }),
		agent.log &&
			seq !== undefined &&
			h(Tool, {
				title: `Log: entry ${entries.join(", ")}`,
				icon: "log",
				"data-log": seq,
				act: () => set({ at: { ...place, log: agent.log ?? "", seq, tab: "" } }, true),
			}),
	);
}

/** @param {{ title: string, text: string, kind?: string, children?: any }} props */
const Box = ({ title, text, kind = "", children }) =>
	h(
		"section",
		{ class: `box ${kind}`, label: title },
		h("header.row", h("h3.grow", title), h(Copy, { text, what: title.toLowerCase() })),
		children,
	);

/** What was answered: a value as a value, else Markdown. @param {{ text: string }} props */
function Answer({ text }) {
	if (/^\s*[[{]/.test(text) && text.length < 50_000)
		try {
			return h(Value, { value: JSON.parse(text), open: 2 });
		} catch {
			// Text that only begins like one.
		}
	return h(Markdown, { text });
}

/** What an edit took out and put in. @param {any} about */
const editOf = (about) =>
	about && typeof about.old_string === "string" && typeof about.new_string === "string"
		? [`- ${about.old_string}`, `+ ${about.new_string}`]
		: null;

/** A call and its result. @param {{ agent: Agent, step: Step, turn: number, i: number }} props */
function StepRow({ agent, step, turn, i }) {
	const isHere = state.at.agent === agent.key && state.at.turn === turn && state.at.step === i;
	const bad = isBad(step.status);
	const gave = faultOf(step.error) || step.result;
	const edit = editOf(step.about);
	const about = aboutOf(step);
	const isHit = isFound(`${textOf(step.about)}\n${gave}`);
	const files = (state.run?.changes ?? []).filter((each) => each.diff && each.calls.includes(step.call));
	const plain = step.kind === "note" || step.kind === "timer";
	return h(
		"div.held",
		h(
			"details.step",
			{
				id: `t${turn}s${i}`,
				class: `${bad ? "failed" : ""} ${isHere ? "here" : ""}`,
				open: bad || isHere || Boolean(edit) || isHit || step.status === "open",
			},
			h(
				"summary.row",
				h(Sign, { status: step.status }),
				h("span.name", highlighted(step.name)),
				h("span.about.grow.cut", highlighted(short(about, 400))),
				edit || plain ? null : h("span.gave.cut", highlighted(bad ? short(gave, 160) : first(gave, 120))),
				h("span.ms", took(step.interval)),
			),
			h(
				"div.in",
				edit
					? Diff(edit)
					: step.about !== null &&
							step.about !== "" &&
							copied(
								typeof step.about === "string"
									? h(Folded, { text: step.about, kind: "pre.out.asked" })
									: h("div.asked", h(Value, { value: step.about, open: 2 })),
								"the arguments",
								textOf(step.about),
							),
				(!edit || bad) &&
					!plain &&
					(gave
						? copied(h(Folded, { text: gave, kind: bad ? "pre.out.bad" : "pre.out" }), "the result", gave)
						: h("p.soft", step.status === "open" ? "It has no result yet." : "It gave nothing.")),
				Changes(files),
			),
		),
		h(Tools, { agent, entries: step.entries, at: { turn, step: i } }),
	);
}

/** A subagent where it was started. @param {{ agent: Agent }} props */
function Card({ agent }) {
	const bad = failedIn(agent);
	const fault = faultOf(agent.error);
	const calls = agent.tools.reduce((n, use) => n + use.called, 0);
	const inside = [
		h(
			"span.row",
			Ended(agent),
			h("b.grow.cut", highlighted(nameOf(agent))),
			bad ? h("span.bad", `${bad} failed`) : null,
		),
		h(
			"span.clamp",
			fault
				? h("span.bad", highlighted(short(fault)))
				: highlighted(first(agent.answered || agent.told, 220)),
		),
		h(
			"span.foot",
			h("span", timeOf(agent) || agent.standing),
			h("span", costOf(agent)),
			h("span.bad", unreadOf(agent)),
			h("span", agent.below ? count(agent.below, "subagent") : calls ? count(calls, "call") : ""),
			agent.files.length ? h("span", `${count(agent.files.length, "file")} changed`) : null,
		),
	];
	return linked(agent, "a.card", inside, { class: isRed(agent) ? "failed" : "" });
}

/** Subagents that were started together. @param {{ agents: Agent[] }} props */
function Cards({ agents }) {
	const span = state.run ? spanOf(state.run) : 0;
	const ends = agents.map((agent) => agent.interval[1] ?? span);
	const starts = agents.map((agent) => agent.interval[0]).filter((at) => at !== null);
	const whole = starts.length ? duration(Math.max(...ends) - Math.min(...starts)) : "";
	const bad = agents.filter(isRed).length;
	return h(
		"div.group",
		h(
			"p.row",
			h(Icon, { name: "agent" }),
			h("b", count(agents.length, "subagent")),
			h("span.soft", [areParallel(agents) ? "in parallel" : "", whole].filter(Boolean).join(" · ")),
			bad ? h("span.bad", `${bad} with failures`) : null,
		),
		h(
			"div.cards",
			agents.slice(0, 60).map((agent) => h(Card, { agent, key: agent.key })),
		),
		agents.length > 60 && h("p.soft", `and ${number(agents.length - 60)} more, in the outline`),
	);
}

/** A message of a prompt; one that was kept is folded. @param {{ how: string, message: Message }} props */
function MessageRow({ how, message }) {
	const { role, text, calls } = message;
	const isKept = how === "kept";
	const asked = calls.length ? `calls ${calls.join(", ")}` : "";
	const shown = h(
		isKept ? "details" : "div",
		{ class: `msg ${how}` },
		h(
			isKept ? "summary.row" : "div.row",
			h("span.how", how),
			h("b", highlighted(role)),
			h("span.soft.grow.cut", isKept ? highlighted(first(text, 160)) : asked),
		),
		text ? h(Folded, { text, kind: "div.text", fold: 1200 }) : h("p.soft", asked || "no text"),
	);
	return copied(shown, `this ${role} message`, text);
}

/** The whole prompt at a turn: what was kept, added and dropped. */
class Prompt extends Component {
	state = { isOpen: false };
	/** @param {{ agent: Agent, turn: Turn, n: number }} props @param {any} now */
	render({ agent, turn, n }, now) {
		const isHere = state.at.turn === n && state.at.agent === agent.key;
		const isHit = isHere && turn.added.some(({ role, text }) => role !== "tool" && isFound(text));
		const isOpen = now.isOpen || isHit;
		const kept = turn.kept + turn.kept_at_end;
		const facts = [kept ? `${number(kept)} kept` : "", `${number(turn.added.length)} added`]
			.filter(Boolean)
			.join(", ");
		const about = [turn.model, took(turn.interval), plain(turn.spent)].filter(Boolean).join(" · ");
		const messages = isOpen ? prompt(agent, n) : [];
		const whole = () =>
			prompt(agent, n)
				.filter((each) => each.how !== "dropped")
				.map(({ message }) => `${message.role}:\n${message.text}`)
				.join("\n\n");
		return h(
			"div.held.asking",
			h(
				"details.prompt",
				{
					open: isHit || undefined,
					onToggle: (e) => this.setState({ isOpen: e.currentTarget.open }),
				},
				h(
					"summary.row",
					h(Icon, { name: "right" }),
					h("span", `Prompt: ${facts}`),
					turn.dropped.length ? h("b.warn", `${number(turn.dropped.length)} dropped`) : null,
					h("span.grow.cut", about),
				),
				isOpen &&
					h(
						"div.messages",
						h(
							"p.row",
							h(
								"span.grow.soft",
								`The whole prompt, ${count(messages.filter((each) => each.how !== "dropped").length, "message")}`,
							),
							h(Copy, { text: whole, what: "the whole prompt", label: "Copy prompt" }),
						),
						messages.map(({ how, message }, key) => h(MessageRow, { key: `${how}${key}`, how, message })),
					),
			),
			h(Tools, { agent, entries: turn.entries, at: { turn: n } }),
		);
	}
}

const grouped = once((/** @type {Step[]} */ steps) =>
	groups(steps, (key) => index(state.run).byKey.has(key)),
);

/** @param {{ agent: Agent, turn: Turn, n: number }} props */
function TurnRow({ agent, turn, n }) {
	const here = state.at.agent === agent.key && state.at.turn === n;
	const fault = faultOf(turn.error);
	const rows = grouped(turn.steps);
	const from =
		here && (state.at.step ?? 0) > STEPS
			? Math.max(0, rows.findIndex((each) => each.step === state.at.step) - 20)
			: 0;
	return h(
		"section.turn",
		{ id: `t${n}`, class: here ? "here" : "", label: turn.n ? `Turn ${turn.n}` : "Before any request" },
		h(
			"div.n",
			turn.n
				? h(
						"a",
						{ href: `#agent=${encodeURIComponent(agent.key)}&turn=${n}`, title: "A link to this turn" },
						String(turn.n),
					)
				: "",
		),
		h(
			"div.what",
			turn.n ? h(Prompt, { agent, turn, n }) : null,
			fault && copied(h("pre.out.bad", highlighted(fault)), "the error", fault),
			turn.says && copied(h("div.answer", h(Answer, { text: turn.says })), "this answer", turn.says),
			turn.n && !turn.says && !turn.error && !turn.steps.length
				? h("p.soft", turn.entries.length < 2 ? "The model has not answered yet." : "The answer is empty.")
				: null,
			h(Steps, { agent, turn, n, rows, from, key: from }),
		),
	);
}

/** The steps of a turn; of many, some at a time. */
class Steps extends Component {
	state = { most: STEPS };
	/** @param {Props & { turn: Turn, rows: ReturnType<typeof groups> }} props @param {any} now */
	render({ agent, turn, n, rows, from }, now) {
		const { byKey } = index(state.run);
		const shown = rows.slice(from, from + now.most);
		const rest = rows.length - from - shown.length;
		return [
			from > 0 && h("p.soft", `${count(from, "step")} before`),
			shown.map(({ children, step }) =>
				children.length
					? h(Cards, { key: `c${step}`, agents: children.map((i) => byKey.get(turn.steps[i].child)) })
					: h(StepRow, { key: step, agent, step: turn.steps[step], turn: n, i: step }),
			),
			rest > 0 &&
				more(`Show more (${count(rest, "step")})`, () => this.setState({ most: now.most + 5 * STEPS })),
		];
	}
}

/** Where the time of an agent went. @param {{ agent: Agent }} props */
function Spent({ agent }) {
	const span = spanOf(state.run);
	const told = sumsOf(agent, span);
	const all = told.model + told.tool + told.wait + told.own;
	if (!all) return null;
	const parts = SHARES.filter(([kind]) => told[kind] > all / 200);
	return h(
		"p.spent",
		h(
			"span.bar",
			{ hush: "true" },
			parts.map(([kind]) =>
				h("i", { class: kind, key: kind, style: { width: `${(told[kind] / all) * 100}%` } }),
			),
		),
		parts.map(([kind, word]) => h("span", { key: kind, class: kind }, `${word} ${duration(told[kind])}`)),
	);
}

/** The chosen agent. */
export class AgentView extends Component {
	state = { from: 0, most: TURNS, key: "" };
	/** @param {any} props @param {any} now */
	static getDerivedStateFromProps(props, now) {
		const { at } = state;
		const turn = at.agent === props.agent.key && at.turn !== null ? at.turn : 0;
		const isNew = now.key !== props.agent.key;
		const inside = turn >= now.from && turn < now.from + now.most;
		if (!isNew && inside) return null;
		return { key: props.agent.key, from: turn >= TURNS ? Math.max(0, turn - 10) : 0, most: TURNS };
	}
	/** @param {{ run: Run, agent: Agent }} props @param {any} now */
	render({ run, agent }, now) {
		const { byKey, children } = index(run);
		const above = byKey.get(agent.parent ?? "");
		const asked = agent.turns.filter((turn) => turn.n).length;
		const fault = faultOf(agent.error);
		const known = started(agent.turns);
		const others = (children.get(agent.key) ?? []).filter((child) => !known.has(child.key));
		const turns = agent.turns.slice(now.from, now.from + now.most);
		const rest = agent.turns.length - now.from - turns.length;
		const gone = unreadOf(agent);
		const spent = plain(agent.own_spent);
		const limits = Object.entries(agent.narrowed).map(
			([name, value]) =>
				`${number(value)} ${name === "timeout_seconds" ? "s" : words(name).replace("max ", "")}`,
		);
		const facts = [
			timeOf(agent),
			agent.own_usage.requests || asked ? spent : "",
			agent.below && plain(agent.spent) !== spent ? `with its subagents ${plain(agent.spent)}` : "",
			asked ? count(asked, "turn") : "",
			agent.models.join(", "),
		].filter(Boolean);
		const last = agent.turns.findLast((turn) => turn.says)?.says;
		const isShort = agent.turns.length < 2 && last === agent.answered;
		return h(
			"main.agent",
			{ id: "main", tabindex: "-1", label: nameOf(agent), "data-agent": agent.key },
			h(
				"div.row.title",
				h("h2", highlighted(nameOf(agent))),
				h(Status, { status: agent.status }),
				above &&
					linked(above, "a.small", [`${agent.tool ? `${agent.tool} of` : "asked by"} ${nameOf(above)}`]),
				agent.how &&
					h(
						"span.soft.small",
						{ title: "How it is known who asked for it" },
						agent.is_provisional ? `${agent.how}, provisional` : agent.how,
					),
				h("span.grow"),
				agent.log &&
					h(
						"button.small",
						{
							onClick: () => set({ at: { log: agent.log ?? "", seq: agent.seq ?? 0, tab: "entries" } }, true),
						},
						h(Icon, { name: "log" }),
						"Log",
					),
			),
			h(
				"p.facts",
				facts.map((fact, key) => h("span", { key }, fact)),
				limits.length > 0 && h("span.soft", `limits: ${limits.join(", ")}`),
			),
			h(Spent, { agent }),
			[gone, ...Object.values(agent.notable)]
				.filter(Boolean)
				.map((note, key) => h("p.note", { key, class: gone === note ? "bad" : "warn" }, note)),
			fault &&
				h(
					Box,
					{ title: "Failed", text: fault, kind: "bad" },
					h(Folded, { text: agent.where ? `${fault}\n${agent.where}` : fault, kind: "pre.out.bad" }),
				),
			agent.told &&
				h(
					Box,
					{ title: "Told", text: agent.told, kind: "task" },
					h(Folded, { text: agent.told, kind: "div.text", fold: 700 }),
				),
			agent.answered &&
				!isShort &&
				h(
					Box,
					{ title: "Answered", text: agent.answered, kind: "answered" },
					h("div.tall", { tabindex: "0" }, h(Answer, { text: agent.answered })),
				),
			!agent.answered &&
				!fault &&
				!asked &&
				!agent.turns.length &&
				!others.length &&
				h(
					"p.none",
					agent.status === "rejected"
						? "It was never started."
						: agent.standing
							? "It has done nothing yet."
							: "It made no call.",
				),
			now.from > 0 &&
				more(`Show earlier (${count(now.from, "turn")})`, () =>
					this.setState({ from: Math.max(0, now.from - TURNS), most: now.most + TURNS }),
				),
			turns.map((turn, i) =>
				h(TurnRow, { key: `${agent.key} ${now.from + i}`, agent, turn, n: now.from + i }),
			),
			rest > 0 &&
				more(`Show what follows (${count(rest, "turn")})`, () =>
					this.setState({ most: now.most + 2 * TURNS }),
				),
			others.length > 0 && h(Cards, { agents: others }),
		);
	}
}
