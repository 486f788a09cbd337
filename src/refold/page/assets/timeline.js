/** Who was busy when: a lane for each agent, on one clock. A drag selects a time; its sums are below. */
import { Component } from "./vendor/preact.js";
import { List, h } from "./dom.js";
import { bars, grouped, isBad, lifeOf, nameOf, once, spanOf, sums, sumsOfRun, timeOf } from "./model.js";
import { Ended } from "./parts.js";
import { set, state } from "./store.js";
import { count, duration, money, number, short } from "./words.js";

const LANE = 20;
const LABEL_MIN = 46;
/** What the time of an agent goes to. @type {[keyof ReturnType<typeof sums>, string][]} */
export const SHARES = [
	["model", "model"],
	["tool", "tools"],
	["wait", "waiting"],
	["own", "its own work"],
];

/** The pixels of some bars as one path; bars that touch are one, so that a lane has few.
 * @param {[number, number][]} boxes */
function path(boxes) {
	let d = "";
	let last = -9;
	for (const [from, to] of boxes.sort((a, b) => a[0] - b[0])) {
		if (to - last < 0.5) continue;
		const start = Math.max(from, last);
		const width = Math.max(1.5, to - start);
		d += `M${start.toFixed(1)} 4h${width.toFixed(1)}v12h-${width.toFixed(1)}z`;
		last = start + width;
	}
	return d;
}

/** The bars of an agent; drawn anew only for another agent, time or width.
 * @param {Run} run @param {Agent} agent @param {number[]} times @param {number} width */
function drawing(run, agent, [start, end], width) {
	const known = drawings(agent);
	const key = [start, end, width, spanOf(run)].join();
	if (known.key === key) return known.made;
	known.key = key;
	/** @param {number} us */
	const x = (us) => Math.min(width + 4, Math.max(-4, ((us - start) / (end - start)) * width));
	const life = lifeOf(agent, spanOf(run));
	/** @type {Record<string, [number, number][]>} */
	const boxes = { model: [], tool: [], wait: [], bad: [] };
	/** @type {any[]} */
	const labels = [];
	let free = -9;
	for (const bar of life ? bars(agent) : []) {
		const to = bar.to ?? life?.[1] ?? 0;
		if (to < start || bar.from > end) continue;
		const box = /** @type {[number, number]} */ ([x(bar.from), x(to)]);
		const kind = isBad(bar.status) || bar.kind === "limit" ? "bad" : bar.kind;
		boxes[kind].push(box);
		const room = box[1] - box[0];
		if (room > LABEL_MIN && labels.length < 40 && box[0] >= free) {
			free = box[1];
			const word = short(bar.name, Math.floor(room / 7) - 2);
			labels.push(h("text", { x: box[0] + 4, y: 13, class: kind, key: labels.length }, word));
		}
	}
	const critical = (!agent.scope && criticalOf(run).get(agent.log)) || [];
	const under = critical.map(
		([, , , from, to]) => `M${x(from).toFixed(1)} 18h${Math.max(1, x(to) - x(from)).toFixed(1)}`,
	);
	const broke = life && agent.status === "broke_off" && x(life[1]) < width + 2;
	known.made = h(
		"svg.bars",
		{ width: width + 8, height: LANE, hush: "true", viewBox: `-2 0 ${width + 8} ${LANE}` },
		life && h("path.life", { d: path([[x(life[0]), x(life[1])]]) }),
		["wait", "model", "tool", "bad"].map((kind) => h(`path.${kind}`, { d: path(boxes[kind]), key: kind })),
		under.length > 0 && h("path.critical", { d: under.join("") }),
		broke && h("path.broke", { d: `M${(x(life[1]) + 2).toFixed(1)} 2l3 4-4 4 4 4-3 4` }),
		labels,
	);
	return known.made;
}
/** The segments of the critical path, by log. */
const criticalOf = once((/** @type {Run} */ run) => grouped(run.critical, ([log]) => log));
const drawings = once((/** @type {Agent} */ _) => ({ key: "", made: /** @type {any} */ (null) }));

/** The pattern of tools, drawn once for all lanes. */
const HATCH = h(
	"svg.unseen",
	{ hush: "true" },
	h(
		"pattern",
		{ id: "hatch", width: 4, height: 4, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
		h("rect", { width: 4, height: 4 }),
		h("rect.line", { width: 2, height: 4 }),
	),
);

export class Timeline extends Component {
	state = { width: 1000, label: 170, drag: null, zoom: false };
	resized = () => this.measure();
	componentDidMount() {
		this.watch = new ResizeObserver(this.resized);
		this.watch.observe(this.base);
		addEventListener("beforeprint", this.resized);
		this.measure();
	}
	componentWillUnmount() {
		this.watch?.disconnect();
		removeEventListener("beforeprint", this.resized);
	}
	measure() {
		const whole = this.base?.querySelector(".lanes")?.clientWidth ?? 1000;
		const label = whole < 600 ? 84 : 180;
		const width = Math.max(100, whole - label - 10);
		if (width !== this.state.width || label !== this.state.label) this.setState({ width, label });
	}
	/** The moments that are drawn: all, or those that were selected. */
	window() {
		const span = spanOf(this.props.run);
		const { from, to } = state.at;
		return this.state.zoom && from !== null && to !== null && to > from ? [from, to] : [0, span];
	}
	/** @param {any} agent */
	lane(agent) {
		const { run, only } = this.props;
		const { width, label } = this.state;
		return {
			class: `lane ${only && !only.has(agent.key) ? "dim" : ""}`,
			"data-key": agent.key,
			inside: [
				h(
					"span.name",
					{
						style: {
							width: `${label}px`,
							"padding-left": `${Math.min(4, agent.depth - run.agents[0].depth) * 10}px`,
						},
						title: nameOf(agent),
					},
					Ended(agent),
					h("span.cut", agent.name || nameOf(agent)),
					h("span", agent.number ? `#${agent.number}` : ""),
					h("span.unseen", timeOf(agent)),
				),
				drawing(run, agent, this.window(), width),
			],
		};
	}
	/** @param {any} e */
	momentOf(e) {
		const box = this.base.querySelector(".lanes").getBoundingClientRect();
		const [start, end] = this.window();
		const x = (e.clientX - box.left - this.state.label) / this.state.width;
		return Math.round(start + Math.min(1, Math.max(0, x)) * (end - start));
	}
	/** @param {any} e */
	press(e) {
		if (e.button !== 0 || e.clientX - this.base.getBoundingClientRect().left < this.state.label + 8) return;
		const at = this.momentOf(e);
		this.setState({ drag: [at, at, e.clientX] });
		/** @param {any} move */
		const drag = (move) => this.setState({ drag: [at, this.momentOf(move), e.clientX] });
		/** @param {any} up */
		const drop = (up) => {
			removeEventListener("pointermove", drag);
			const to = this.momentOf(up);
			this.setState({ drag: null });
			if (Math.abs(up.clientX - e.clientX) < 5) return;
			this.dropped = true;
			setTimeout(() => (this.dropped = false));
			set({ at: { from: Math.min(at, to), to: Math.max(at, to) } });
		};
		addEventListener("pointermove", drag);
		addEventListener("pointerup", drop, { once: true });
	}
	/** Choose the lane, and what was at this moment. @param {any} agent @param {any} e */
	choose(agent, e) {
		if (this.dropped) return;
		const inBars = e?.clientX && e.clientX - this.base.getBoundingClientRect().left > this.state.label + 8;
		const at = inBars ? this.momentOf(e) : -1;
		const span = spanOf(this.props.run);
		const near = (span / this.state.width) * 2;
		const bar = bars(agent).findLast(
			(each) => each.from - near <= at && at <= (each.to ?? span) + near && each.kind !== "wait",
		);
		set({ at: { agent: agent.key, turn: bar?.turn ?? null, step: bar?.step ?? null } }, true);
	}
	/** @param {any} props @param {any} now */
	render({ run, rows, only, active }, now) {
		const span = spanOf(run);
		const [start, end] = this.window();
		const { width, label, drag } = now;
		const { from, to } = state.at;
		const chosen = drag
			? [Math.min(drag[0], drag[1]), Math.max(drag[0], drag[1])]
			: from !== null && to !== null
				? [from, to]
				: null;
		/** @param {any} us */
		const x = (us) => Math.min(width, Math.max(0, ((us - start) / (end - start)) * width));
		const told = chosen ? sums(run.agents, span, chosen[0], chosen[1]) : sumsOfRun(run);
		const steps = width < 500 ? 4 : 8;
		const zoomed = now.zoom && chosen && !drag;
		return h(
			"section.time",
			{ label: "Timeline" },
			HATCH,
			h(
				"div.ticks",
				{ hush: "true", style: { "margin-left": `${label}px`, width: `${width}px` } },
				Array.from({ length: steps }, (_, i) =>
					h(
						"span",
						{ key: i, style: { left: `${(i / steps) * 100}%` } },
						i || start ? duration(start + ((end - start) * i) / steps) : "0",
					),
				),
			),
			h(
				"div.lanes",
				{ onPointerDown: (e) => this.press(e) },
				h(List, {
					label: "Timeline of the agents",
					name: "lane",
					none: "No agent matches.",
					count: rows.length,
					height: LANE,
					max: 13 * LANE,
					active,
					row: (i) => ({
						...this.lane(rows[i]),
						onClick: (/** @type {any} */ e) => this.choose(rows[i], e),
					}),
					choose: (i) => this.choose(rows[i], null),
				}),
				chosen &&
					!zoomed &&
					h("div.chosen", {
						hush: "true",
						style: {
							left: `${label + x(chosen[0])}px`,
							width: `${Math.max(1, x(chosen[1]) - x(chosen[0]))}px`,
						},
					}),
			),
			h(
				"p.legend",
				{ role: "status" },
				h("b", chosen ? `${duration(chosen[0]) || "0"} to ${duration(chosen[1])}` : "Sums"),
				SHARES.map(([kind, word]) =>
					h(
						"span",
						{ class: `sum ${kind}`, key: kind },
						h("i", { class: kind, hush: "true" }),
						`${word} `,
						h("b", duration(told[kind]) || "0"),
					),
				),
				h(
					"span.sum",
					h("i.bad", { hush: "true" }),
					told.failed ? h("b.bad", `${number(told.failed)} failed`) : "failed",
				),
				run.critical?.length > 0 && h("span.sum", h("i.critical", { hush: "true" }), "critical path"),
				chosen &&
					h(
						"span.sum",
						`${count(told.agents, "agent")}, ${count(told.calls, "call")}, ${count(told.requests, "request")}`,
					),
				chosen &&
					told.tokens > 0 &&
					h("span.sum", `${number(told.tokens)} tokens${told.micros ? `, ${money(told.micros)}` : ""}`),
				chosen
					? h(
							"span.row",
							h(
								"button.small",
								{ onClick: () => this.setState({ zoom: !now.zoom }) },
								now.zoom ? "Whole run" : "Zoom in",
							),
							h(
								"button.small",
								{ onClick: () => (this.setState({ zoom: false }), set({ at: { from: null, to: null } })) },
								"Clear",
							),
						)
					: h("span.soft.hint", "drag over the lanes to sum up a time"),
			),
		);
	}
}
