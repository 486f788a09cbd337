/** One agent: what it was told, what it answered, and its turns: prompt, answer, calls, subagents. */
import { Component } from "./vendor/preact.js";
import { h } from "./dom.js";
import {
	aboutOf,
	failedIn,
	groups,
	index,
	areParallel,
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
} from "./model.js";
import { Copy, Folded, Icon, Markdown, Sign, Status, Value, highlighted } from "./parts.js";
import { set, state } from "./store.js";
import { count, duration, faultOf, first, number, short } from "./words.js";

const TURNS = 40;
const STEPS = 100;

/** @param {Interval} interval */
const took = ([from, to]) => (from !== null && to !== null ? duration(to - from) : "");

/** @param {Partial<Place>} at */
const linkTo = (at) => {
	const said = new URLSearchParams();
	for (const [name, value] of Object.entries(at))
		if (value !== null && value !== undefined) said.set(name, String(value));
	return `${location.href.replace(/#.*/, "")}#${said}`;
};

/** What was spent, without a cost that is not known. @param {string} spent */
const plain = (spent) => spent.replace(/, cost –$/, "");

/** @param {string} key */
export const go = (key) => set({ at: { agent: key, turn: null, step: null } }, true);

/** The entry of a step or turn, in the drawer. @param {{ agent: Agent, entries: number[], at: Partial<Place> }} props */
function Tools({ agent, entries, at }) {
	const seq = entries.at(-1);
	const place = { agent: agent.key, ...at };
	return h(
		"span.tools",
		h(Copy, { text: () => linkTo(place), what: "a link to this", icon: "link" }),
		agent.log &&
			seq !== undefined &&
			h(
				"button.bare",
				{
					title: `Log: entry ${entries.join(", ")}`,
					label: `Log: entry ${entries.join(", ")}`,
					"data-log": seq,
					onClick: (e) => {
						e.preventDefault();
						e.stopPropagation();
						set({ at: { ...place, log: /** @type {string} */ (agent.log), seq, tab: "" } }, true);
					},
				},
				h(Icon, { name: "log" }),
			),
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
		? [about.old_string, about.new_string]
		: null;

/** @param {string} diff */
const Diff = (diff) =>
	h(
		"pre.out.diff",
		{ tabindex: "0" },
		diff
			.slice(0, 50_000)
			.split("\n")
			.map((line, key) =>
				h(
					line.startsWith("+") ? "ins" : line.startsWith("-") ? "del" : "span",
					{ key },
					highlighted(line),
					"\n",
				),
			),
	);

/** A call and its result. @param {{ agent: Agent, step: Step, turn: number, i: number }} props */
function StepRow({ agent, step, turn, i }) {
	const isHere = state.at.agent === agent.key && state.at.turn === turn && state.at.step === i;
	const bad = isBad(step.status);
	const gave = faultOf(step.error) || step.result;
	const edit = editOf(step.about);
	const about = aboutOf(step.about);
	const isFound =
		state.query.text &&
		`${textOf(step.about)}\n${gave}`.toLowerCase().includes(state.query.text.toLowerCase());
	const files = (state.run?.changes ?? []).filter((each) => each.diff && each.calls.includes(step.call));
	const plain = step.kind === "note" || step.kind === "timer";
	return h(
		"div.held",
		h(
			"details.step",
			{
				id: `t${turn}s${i}`,
				class: `${bad ? "failed" : ""} ${isHere ? "here" : ""}`,
				open: bad || isHere || Boolean(edit) || Boolean(isFound) || step.status === "open",
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
					? h(
							"pre.out.diff",
							{ tabindex: "0" },
							h("del", "- ", highlighted(edit[0]), "\n"),
							h("ins", "+ ", highlighted(edit[1])),
						)
					: step.about !== null &&
							step.about !== "" &&
							h(
								"div.copied",
								typeof step.about === "string"
									? h(Folded, { text: step.about, kind: "pre.out.asked" })
									: h("div.asked", h(Value, { value: step.about, open: 2 })),
								h(Copy, { text: textOf(step.about), what: "the arguments" }),
							),
				(!edit || bad) &&
					!plain &&
					h(
						"div.copied",
						gave
							? h(Folded, { text: gave, kind: bad ? "pre.out.bad" : "pre.out" })
							: h("p.soft", step.status === "open" ? "It has no result yet." : "It gave nothing."),
						gave ? h(Copy, { text: gave, what: "the result" }) : null,
					),
				files.map((file, key) => h("div", { key }, h("p.file", highlighted(file.text)), Diff(file.diff))),
			),
		),
		h(Tools, { agent, entries: step.entries, at: { turn, step: i } }),
	);
}

/** A subagent where it was started. @param {{ agent: Agent }} props */
function Card({ agent }) {
	const bad = failedIn(agent);
	const fault = faultOf(agent.error);
	return h(
		"a.card",
		{
			href: `#agent=${encodeURIComponent(agent.key)}`,
			class: isRed(agent) ? "failed" : "",
			onClick: (e) => {
				e.preventDefault();
				go(agent.key);
			},
		},
		h(
			"span.row",
			h(Sign, { status: agent.status, warn: isRed(agent) && !isBad(agent.status) }),
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
			agent.cost ? h("span", agent.cost) : null,
			agent.below
				? h("span", count(agent.below, "subagent"))
				: h(
						"span",
						count(
							agent.tools.reduce((n, use) => n + use.called, 0),
							"call",
						),
					),
			agent.files.length ? h("span", `${count(agent.files.length, "file")} changed`) : null,
		),
	);
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
	return h(
		"div.copied",
		h(
			isKept ? "details" : "div",
			{ class: `msg ${how}` },
			h(
				isKept ? "summary.row" : "div.row",
				h("span.how", how),
				h("b", highlighted(role)),
				h("span.soft.grow.cut", isKept ? highlighted(first(text, 160)) : asked),
			),
			text ? h(Folded, { text, kind: "div.text", fold: 1200 }) : h("p.soft", asked || "no text"),
		),
		h(Copy, { text, what: `this ${role} message` }),
	);
}

/** The whole prompt at a turn: what was kept, added and dropped. */
class Prompt extends Component {
	/** @param {any} props */
	constructor(props) {
		super(props);
		this.state = { isOpen: false };
	}
	/** @param {any} props @param {any} now */
	render({ agent, turn, n }, now) {
		const needle = state.query.text.toLowerCase();
		const isFound =
			needle &&
			turn.added.some(
				(/** @type {any} */ each) => each.role !== "tool" && each.text.toLowerCase().includes(needle),
			) &&
			state.at.turn === n &&
			state.at.agent === agent.key;
		const isOpen = now.isOpen || isFound;
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
					open: isFound || undefined,
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
	groups(steps, (key) => index(/** @type {Run} */ (state.run)).byKey.has(key)),
);

/** @param {{ agent: Agent, turn: Turn, n: number }} props */
function TurnRow({ agent, turn, n }) {
	const here = state.at.agent === agent.key && state.at.turn === n;
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
			turn.error &&
				h(
					"div.copied",
					h("pre.out.bad", highlighted(faultOf(turn.error))),
					h(Copy, { text: faultOf(turn.error), what: "the error" }),
				),
			turn.says &&
				h(
					"div.answer.copied",
					h(Answer, { text: turn.says }),
					h(Copy, { text: turn.says, what: "this answer" }),
				),
			turn.n && !turn.says && !turn.error && !turn.steps.length
				? h("p.soft", turn.entries.length < 2 ? "The model has not answered yet." : "The answer is empty.")
				: null,
			h(Steps, { agent, turn, n, rows, from, key: from }),
		),
	);
}

/** The steps of a turn; of many, some at a time. */
class Steps extends Component {
	/** @param {any} props */
	constructor(props) {
		super(props);
		this.state = { most: STEPS };
	}
	/** @param {any} props @param {any} now */
	render({ agent, turn, n, rows, from }, now) {
		const { byKey } = index(/** @type {Run} */ (state.run));
		const shown = rows.slice(from, from + now.most);
		const rest = rows.length - from - shown.length;
		return [
			from > 0 && h("p.soft", `${count(from, "step")} before`),
			/** @type {any} */ shown.map((/** @type {any} */ { children, step }) =>
				children.length
					? h(Cards, {
							key: `c${step}`,
							agents: children.map((/** @type {any} */ i) => byKey.get(turn.steps[i].child)),
						})
					: h(StepRow, { key: step, agent, step: turn.steps[step], turn: n, i: step }),
			),
			rest > 0 &&
				h(
					"button.more",
					{ onClick: () => this.setState({ most: now.most + 5 * STEPS }) },
					`Show more (${count(rest, "step")})`,
				),
		];
	}
}

/** Where the time of an agent went. @param {{ agent: Agent }} props */
function Spent({ agent }) {
	const span = spanOf(/** @type {Run} */ (state.run));
	const told = sumsOf(agent, span);
	const all = told.model + told.tool + told.wait + told.own;
	if (!all) return null;
	const parts = /** @type {[string, string, number][]} */ ([
		["model", "model", told.model],
		["tool", "tools", told.tool],
		["wait", "waiting", told.wait],
		["own", "its own work", told.own],
	]).filter(([, , us]) => us > all / 200);
	return h(
		"p.spent",
		h(
			"span.bar",
			{ hush: "true" },
			parts.map(([kind, , us]) =>
				h("i", { class: kind, key: kind, style: { width: `${(us / all) * 100}%` } }),
			),
		),
		parts.map(([kind, word, us]) => h("span", { key: kind, class: kind }, `${word} ${duration(us)}`)),
	);
}

/** The chosen agent. */
export class AgentView extends Component {
	/** @param {any} props */
	constructor(props) {
		super(props);
		this.state = { from: 0, most: TURNS, key: "" };
	}
	/** @param {any} props @param {any} now */
	static getDerivedStateFromProps(props, now) {
		const { at } = state;
		const turn = at.agent === props.agent.key && at.turn !== null ? at.turn : 0;
		const isNew = now.key !== props.agent.key;
		const inside = turn >= now.from && turn < now.from + now.most;
		if (!isNew && inside) return null;
		return { key: props.agent.key, from: turn >= TURNS ? Math.max(0, turn - 10) : 0, most: TURNS };
	}
	/** @param {any} props @param {any} now */
	render({ run, agent }, now) {
		const { byKey, children } = index(run);
		const above = byKey.get(agent.parent ?? "");
		const asked = agent.turns.filter((/** @type {any} */ turn) => turn.n).length;
		const fault = faultOf(agent.error);
		const known = started(agent.turns);
		const others = (children.get(agent.key) ?? []).filter((child) => !known.has(child.key));
		const turns = agent.turns.slice(now.from, now.from + now.most);
		const rest = agent.turns.length - now.from - turns.length;
		const gone =
			!["read", "none"].includes(agent.log_state) &&
			`its log is ${agent.log_state === "foreign" ? "another run's" : agent.log_state}`;
		const spent = plain(agent.own_usage.spent);
		const facts = [
			timeOf(agent),
			agent.own_usage.requests || asked ? spent : "",
			agent.below && plain(agent.usage.spent) !== spent
				? `with its subagents ${plain(agent.usage.spent)}`
				: "",
			asked ? count(asked, "turn") : "",
			agent.models.join(", "),
		].filter(Boolean);
		const last = agent.turns.findLast((/** @type {any} */ turn) => turn.says)?.says;
		const isShort = agent.turns.length < 2 && last === agent.answered;
		return h(
			"main.agent",
			{ id: "main", tabindex: "-1", label: nameOf(agent), "data-agent": agent.key },
			h(
				"div.row.title",
				h("h2", highlighted(nameOf(agent))),
				h(Status, { status: agent.status, word: agent.standing }),
				above &&
					h(
						"a.small",
						{
							href: `#agent=${encodeURIComponent(above.key)}`,
							onClick: (e) => (e.preventDefault(), go(above.key)),
						},
						`${agent.tool ? `${agent.tool} of` : "asked by"} ${nameOf(above)}`,
					),
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
						{ onClick: () => set({ at: { log: agent.log, seq: agent.seq ?? 0, tab: "entries" } }, true) },
						h(Icon, { name: "log" }),
						"Log",
					),
			),
			h(
				"p.facts",
				facts.map((fact, key) => h("span", { key }, fact)),
				agent.limits && h("span.soft", `limits: ${agent.limits}`),
			),
			h(Spent, { agent }),
			[gone, ...agent.notable]
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
				h("p.none", agent.status === "rejected" ? "It was never started." : "It has done nothing yet."),
			now.from > 0 &&
				h(
					"button.more",
					{ onClick: () => this.setState({ from: Math.max(0, now.from - TURNS), most: now.most + TURNS }) },
					`Show earlier (${count(now.from, "turn")})`,
				),
			turns.map((/** @type {any} */ turn, /** @type {any} */ i) =>
				h(TurnRow, { key: `${agent.key} ${now.from + i}`, agent, turn, n: now.from + i }),
			),
			rest > 0 &&
				h(
					"button.more",
					{ onClick: () => this.setState({ most: now.most + 2 * TURNS }) },
					`Show what follows (${count(rest, "turn")})`,
				),
			others.length > 0 && h(Cards, { agents: others }),
		);
	}
}
