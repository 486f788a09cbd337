/** The bytes of the logs: unpacked in slices, indexed by line, read when shown. */
import { pause } from "./dom.js";
import { faultOf, short } from "./words.js";

const decoder = new TextDecoder();

/** @template {Uint8Array | Float64Array} T @param {T} array @param {number} size @returns {T} */
function roomy(array, size) {
	if (size <= array.length) return array;
	const grown = new /** @type {any} */ (array.constructor)(Math.max(size, array.length * 1.5));
	grown.set(array);
	return grown;
}

/** One log: its bytes as far as they have come, and where its lines begin. */
export class Log {
	/** @param {string} id @param {any} facts */
	constructor(id, facts) {
		this.id = id;
		this.facts = facts;
		this.bytes = new Uint8Array(Math.min(facts.bytes || 0, 2 ** 31));
		this.filled = 0;
		this.offsets = new Float64Array(Math.min((facts.entries || 0) + 2, 2 ** 22));
		this.lines = 0;
		this.ended = false;
		this.fault = "";
		/** How far `check` has come. @type {any} */
		this.checked = null;
		/** Where content is left out: seq, kind, call, cause, hash, time of each entry. @type {any[] | null} */
		this.rows = null;
	}
	/** @param {Uint8Array} chunk */
	add(chunk) {
		this.bytes = roomy(this.bytes, this.filled + chunk.length);
		this.bytes.set(chunk, this.filled);
		for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) {
			this.offsets = roomy(this.offsets, this.lines + 2);
			this.offsets[++this.lines] = this.filled + at + 1;
		}
		this.filled += chunk.length;
	}
	/** Forget what came of a line that is not whole: a writer may cut it off. */
	rewind() {
		this.filled = this.offsets[this.lines];
	}
	/** @param {number} seq */
	line(seq) {
		return this.bytes.subarray(this.offsets[seq], this.offsets[seq + 1] - 1);
	}
	/** @param {number} seq */
	text(seq) {
		return this.rows ? "" : decoder.decode(this.line(seq));
	}
	/** The number of the entry that ended the call of entry `seq`; of one without an end, its own.
	 * @param {number} seq */
	endOf(seq) {
		const call = this.entry(seq)?.call;
		for (let at = seq + 1; call && at < this.lines; at++) if (this.entry(at)?.call === call) return at;
		return seq;
	}
	/** The entry; of a line that is none, what can be said. @param {number} seq @returns {Entry | null} */
	entry(seq) {
		if (!(seq >= 0 && seq < this.lines)) return null;
		if (this.rows) {
			const [, kind, call, cause, hash, at] = this.rows[seq];
			return { seq, kind, call, cause, hash, at, data: {}, left: true };
		}
		try {
			const entry = JSON.parse(this.text(seq));
			if (entry && typeof entry === "object" && typeof entry.kind === "string") {
				entry.data = entry.data && typeof entry.data === "object" ? entry.data : {};
				return entry;
			}
		} catch {
			// A damaged line is shown as one.
		}
		return { seq, kind: "unreadable", data: {}, damaged: true };
	}
}

/** The logs stand behind the script. */
const read = new Promise((done) => {
	if (globalThis.document?.readyState === "loading") addEventListener("DOMContentLoaded", done);
	else done(null);
});

export class Store {
	/** @param {any} run @param {((path: string, more?: any) => string) | null} ask */
	constructor(run, ask) {
		this.ask = ask;
		/** @type {Map<string, Log>} */
		this.logs = new Map();
		/** @type {Map<string, Promise<any>>} */
		this.parts = new Map();
		this.onGrowth = () => {};
		this.zero = 0;
		this.take(run);
	}
	/** Take a document; of a log that is known, by the id of its run, the bytes are kept. @param {any} run */
	take(run) {
		const known = this.logs;
		this.run = run;
		this.root = run.logs[0].id;
		this.logs = new Map();
		if (this.ask) this.parts.clear();
		for (const each of this.runs)
			for (const facts of each.logs) {
				const log = known.get(facts.id) ?? new Log(facts.id, facts);
				const rows = each.entries?.[facts.id];
				this.logs.set(facts.id, log);
				log.facts = facts;
				if (rows) {
					log.rows = rows;
					log.lines = rows.length;
					log.ended = true;
				}
			}
	}
	/** The run, and the one beside it. @returns {any[]} */
	get runs() {
		return [this.run, this.run.diff?.other].filter(Boolean);
	}
	get loaded() {
		return [...this.logs.values()].every((log) => log.ended);
	}
	/** Unpack, or fetch, all logs, the root first. */
	async load() {
		await read;
		for (const log of this.logs.values()) {
			try {
				if (log.rows) continue;
				if (this.ask) await this.fetchLog(log);
				else if (!log.ended) {
					const blocks = [...document.querySelectorAll(`script[data-log="${CSS.escape(log.id)}"]`)];
					if (!blocks.length) log.fault = "not in this file";
					else await unpack(blocks, (chunk) => log.add(chunk));
				}
			} catch (error) {
				log.fault = `cannot be unpacked: ${error instanceof Error ? error.message : error}`;
			}
			log.ended = true;
			this.onGrowth();
		}
	}
	/** Fetch the bytes that the document is of. What does not come leaves the log short, not damaged.
	 * @param {Log} log */
	async fetchLog(log) {
		log.rewind();
		while (this.ask && log.filled < log.facts.bytes) {
			const to = Math.min(log.facts.bytes, log.filled + 2 ** 21);
			const reply = await fetch(this.ask("raw", { run: log.id, from: log.filled, to })).catch(() => null);
			const chunk = reply?.ok ? new Uint8Array(await reply.arrayBuffer()) : new Uint8Array(0);
			if (!chunk.length) return;
			log.add(chunk);
			this.onGrowth();
			await pause();
		}
	}
	/** A part of the document that is read when it is looked at: `links` or `states`. @param {string} name */
	part(name) {
		const known = this.parts.get(name);
		if (known) return known;
		const reading = this.ask
			? fetch(this.ask("part", { name })).then((reply) => (reply.ok ? reply.json() : {}))
			: read
					.then(() => whole(`script[data-part="${name}"]`))
					.then(async (part) => JSON.parse((await part?.text()) ?? "{}"));
		this.parts.set(name, reading);
		return reading;
	}
	/** @param {string} log @param {number} seq */
	entry(log, seq) {
		return this.logs.get(log)?.entry(seq) ?? null;
	}
	/** When an entry was written, in microseconds since the root's first. @param {Entry | null} entry */
	at(entry) {
		if (entry?.at !== undefined) return entry.at;
		this.zero ||= this.logs.get(this.root)?.entry(0)?.meta?.wall_us ?? 0;
		return this.zero && entry?.meta?.wall_us ? entry.meta.wall_us - this.zero : null;
	}
	/** @param {string} digest */
	async blob(digest) {
		if (!/^[0-9a-f]{64}$/.test(digest)) return null;
		if (this.ask) {
			const reply = await fetch(this.ask("blob", { digest }));
			return reply.ok ? new Uint8Array(await reply.arrayBuffer()) : null;
		}
		await read;
		const found = await whole(`script[data-blob="${digest}"]`);
		return found && new Uint8Array(await found.arrayBuffer());
	}
}

/** What some elements hold, unpacked; nothing if there are none. @param {string} selector */
export async function whole(selector, keep = true) {
	const blocks = [...document.querySelectorAll(selector)];
	if (!blocks.length) return null;
	/** @type {any[]} */
	const parts = [];
	await unpack(blocks, (bytes) => parts.push(bytes), keep);
	return new Blob(parts);
}

/** Decode base64 and gzip, an element at a time.
 * @param {Element[]} blocks @param {(bytes: Uint8Array) => void} take */
async function unpack(blocks, take, keep = false) {
	/** @type {ReadableStream<any>} */
	const packed = new ReadableStream(
		{
			async pull(control) {
				const block = blocks.shift();
				if (!block) {
					control.close();
					return;
				}
				await pause();
				const part = atob(block.textContent ?? "");
				const bytes = new Uint8Array(part.length);
				for (let i = 0; i < part.length; i++) bytes[i] = part.charCodeAt(i);
				control.enqueue(bytes);
				if (!keep) block.remove();
			},
		},
		{ highWaterMark: 1 },
	);
	const reader = packed.pipeThrough(new DecompressionStream("gzip")).getReader();
	for (let n = 0; ; n++) {
		const { done, value } = await reader.read();
		if (done) break;
		take(value);
		if (n % 16 === 15) await pause();
	}
}

// --- entries in words

/** @param {any} of @param {any} value */
const ending = (of, value) => short(of.error ? faultOf(of.error) : value);

/** The words of a message, of whichever form. @param {any} message */
function messageText(message) {
	const parts = message?.content ?? message?.text ?? message?.parts ?? "";
	if (!Array.isArray(parts)) return short(parts);
	const text = parts.map((p) =>
		[p, p?.text, p?.content].find((each) => typeof each === "string" || each?.$blob),
	);
	return text.map((each) => short(each)).join(" ");
}

/** What an entry says. @param {Entry} e @returns {string} */
export function summary(e) {
	if (e.left) return "content left out";
	const d = e.data;
	const o = d.outcome ?? d;
	const g = d.delegation ?? {};
	/** @param {any} call */
	const nameOf = (call) => call?.function?.name ?? call?.name;
	switch (e.kind) {
		case "run.started":
			return `${d.program} ${short(d.input)}`;
		case "tool.called":
			return `${d.tool}(${short(d.arguments)})`;
		case "tool.returned":
			return ending(d, d.result);
		case "model.asked":
			return `${d.model} ${d.added?.length ? `+${d.added.length}: ${messageText(d.added.at(-1))}` : ""}`;
		case "model.answered":
			return ending(d, messageText(d.message) || (d.message?.tool_calls ?? []).map(nameOf).join(", "));
		case "child.started":
			return `${g.agent ?? g.program} ${short(g.brief)}`;
		case "child.finished":
		case "run.finished":
			return `${o.status ?? ""} ${ending(o, o.summary ?? o.output)}`;
		case "limit.hit":
			return `${d.limit}: ${d.observed} of ${d.allowed}`;
		case "note.added":
		case "input.asked":
		case "input.given":
			return short(d.text ?? d.question ?? d.answer);
		case "unreadable":
			return "this line is not an entry";
		default:
			return short(d);
	}
}

/** How what an entry tells of ended, if it tells of an end. @param {Entry} e */
export function statusOf(e) {
	const status = e.data.outcome?.status ?? e.data.status;
	// An answer on the wire has the number of HTTP.
	if (typeof status === "number") return status < 400 ? "" : "error";
	return String(
		status ?? (e.kind === "limit.hit" ? "limit" : e.kind === "effect.cancelled" ? "cancelled" : ""),
	);
}

// --- causes and states

/** How, log and seq of what led to an entry first. @param {any} links @param {string} log @param {number} seq */
export function causeOf(links, log, seq) {
	const own = links[log];
	return own?.seq[seq] >= 0 ? [links.words[own.how[seq]], links.logs[own.log[seq]], own.seq[seq]] : null;
}

/** What an entry led to directly: a search is cheaper than an index.
 * @param {any} links @param {string} log @param {number} seq */
export function ledTo(links, log, seq) {
	/** @type {[string, string, number][]} */
	const found = [];
	const place = (links.logs ?? []).indexOf(log);
	for (const from of links.logs ?? []) {
		const own = links[from];
		for (let at = own.seq.indexOf(seq); at >= 0; at = own.seq.indexOf(seq, at + 1))
			if (own.log[at] === place) found.push([links.words[own.how[at]], from, at]);
	}
	return found;
}

/** The state after an entry, and before it: each row has the members that its entry changed.
 * @param {any[]} rows @param {number} seq */
export function stateAt(rows, seq) {
	/** @type {Map<string, any>} */
	const before = new Map();
	for (let at = 0; at < Math.min(seq, rows.length); at++)
		for (const [name, value] of Object.entries(rows[at])) before.set(name, value);
	const changed = seq < rows.length ? Object.entries(rows[seq]) : [];
	const after = new Map([...before, ...changed]);
	return { before, changed, after };
}
