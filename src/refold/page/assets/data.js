/** The document and the bytes of the logs: unpacked in slices, indexed by line, read when shown. */
import { pause, short, starts } from "./dom.js";

const decoder = new TextDecoder();

function roomy(array, size) {
	if (size <= array.length) return array;
	const grown = new array.constructor(Math.max(size, array.length * 1.5));
	grown.set(array);
	return grown;
}

/** One log: its bytes as far as they have come, and where its lines begin. */
export class Log {
	constructor(id, said) {
		this.id = id;
		this.said = said;
		this.bytes = new Uint8Array(Math.min(said.bytes || 0, 2 ** 31));
		this.filled = 0;
		this.offsets = new Float64Array(Math.min((said.entries || 0) + 2, 2 ** 22));
		this.lines = 0;
		this.ended = false;
		this.fault = "";
		/** How far `check` has come. */
		this.checked = null;
		/** Where content is left out: seq, kind, call, cause, hash, time of each entry. */
		this.rows = null;
	}
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
	rewind() { this.filled = this.offsets[this.lines]; }
	line(seq) { return this.bytes.subarray(this.offsets[seq], this.offsets[seq + 1] - 1); }
	text(seq) { return this.rows ? "" : decoder.decode(this.line(seq)); }
	/** The entry; of a line that is none, what can be said */
	entry(seq) {
		if (!(seq >= 0 && seq < this.lines)) return null;
		if (this.rows) { const [, kind, call, cause, hash, at] = this.rows[seq]; return { seq, kind, call, cause, hash, at, data: {}, left: true }; }
		try {
			const entry = JSON.parse(this.text(seq));
			if (entry && typeof entry === "object" && typeof entry.kind === "string") {
				entry.data = entry.data && typeof entry.data === "object" ? entry.data : {};
				return entry;
			}
		} catch { /* a damaged line is shown as one */ }
		return { seq, kind: "unreadable", data: {}, damaged: true };
	}
}

/** The logs stand behind the script. */
const read = new Promise((done) => (document.readyState === "loading" ? addEventListener("DOMContentLoaded", done) : done(null)));

export class Store {
	constructor(page, server) {
		this.server = server;
		this.logs = new Map();
		this.take(page);
	}
	/** Take a document; of a log that is known, by the id of its run, the bytes are kept. */
	take(page) {
		const known = this.logs;
		this.page = page;
		this.root = page.logs[0].id;
		this.logs = new Map();
		for (const run of this.runs) for (const said of run.logs) {
			const log = known.get(said.id) ?? new Log(said.id, said), rows = page.entries?.[said.id];
			this.logs.set(said.id, log);
			log.said = said;
			if (rows) { log.rows = rows; log.lines = rows.length; log.ended = true; }
		}
	}
	/** The run, and the one beside it */
	get runs() { return [this.page, this.page.diff?.other].filter(Boolean); }
	get loaded() { return [...this.logs.values()].every((log) => log.ended); }
	tell() {}

	/** Unpack, or fetch, all logs, the root first. */
	async load() {
		await read;
		for (const log of this.logs.values()) {
			try {
				if (log.rows) continue;
				if (this.server) await this.fetchLog(log);
				else if (!log.ended) {
					const blocks = [...document.querySelectorAll(`script[data-log="${CSS.escape(log.id)}"]`)];
					if (!blocks.length) log.fault = "not in this file";
					else await unpack(blocks, (chunk) => log.add(chunk));
				}
			} catch (error) { log.fault = `cannot be unpacked: ${error instanceof Error ? error.message : error}`; }
			log.ended = true;
			this.tell();
		}
	}
	/** Fetch the bytes that the document is of. What does not come leaves the log short, not damaged. */
	async fetchLog(log) {
		log.rewind();
		while (log.filled < log.said.bytes) {
			const reply = await fetch(this.server.query("raw", { run: log.id, from: log.filled, to: Math.min(log.said.bytes, log.filled + 2 ** 21) })).catch(() => null);
			const chunk = reply?.ok ? new Uint8Array(await reply.arrayBuffer()) : "";
			if (!chunk.length) return;
			log.add(chunk);
			this.tell();
			await pause();
		}
	}
	entry(log, seq) { return this.logs.get(log)?.entry(seq) ?? null; }
	/** When an entry was written, in microseconds since the root's first. */
	at(entry) {
		if (entry?.at !== undefined) return entry.at;
		this.zero ||= this.logs.get(this.root)?.entry(0)?.meta?.wall_us;
		return this.zero && entry?.meta?.wall_us ? entry.meta.wall_us - this.zero : null;
	}
	/** How, log and seq of the main cause */
	cause(log, seq) {
		const links = this.linksOf(log), own = links?.[log];
		return own?.seq[seq] >= 0 ? [links.words[own.how[seq]], links.logs[own.log[seq]], own.seq[seq]] : null;
	}
	/** The links of the run that it belongs to */
	linksOf(log) { return this.runs.map((run) => run.links).find((links) => links[log]); }
	/** What an entry led to directly: a search is cheaper than an index. */
	ledTo(log, seq) {
		const found = [], links = this.linksOf(log), place = links?.logs.indexOf(log);
		for (const from of links?.logs ?? []) {
			const own = links[from];
			for (let at = own.seq.indexOf(seq); at >= 0; at = own.seq.indexOf(seq, at + 1)) if (own.log[at] === place) found.push([links.words[own.how[at]], from, at]);
		}
		return found;
	}
	/** Read how a large text begins. */
	async begin(digest, then) {
		starts.known.set(digest, "");
		const bytes = await this.blob(digest).catch(() => null);
		if (bytes) { starts.known.set(digest, decoder.decode(bytes.subarray(0, 1500))); then(); }
	}
	async blob(digest) {
		if (!/^[0-9a-f]{64}$/.test(digest)) return null;
		if (this.server) {
			const reply = await fetch(this.server.query("blob", { digest }));
			return reply.ok ? new Uint8Array(await reply.arrayBuffer()) : null;
		}
		await read;
		const blocks = [...document.querySelectorAll(`script[data-blob="${digest}"]`)], parts = [];
		if (!blocks.length) return null;
		await unpack(blocks, (part) => parts.push(part), true);
		return new Uint8Array(await new Blob(parts).arrayBuffer());
	}
}

/** Decode base64 and gzip, an element at a time. */
export async function unpack(blocks, take, keep = false) {
	const packed = new ReadableStream({
		async pull(control) {
			const block = blocks.shift();
			if (!block) { control.close(); return; }
			await pause();
			const part = atob(block.textContent ?? ""), bytes = new Uint8Array(part.length);
			for (let i = 0; i < part.length; i++) bytes[i] = part.charCodeAt(i);
			control.enqueue(bytes);
			if (!keep) block.remove();
		},
	}, { highWaterMark: 1 });
	const reader = packed.pipeThrough(new DecompressionStream("gzip")).getReader();
	for (let n = 0; ; n++) {
		const { done, value } = await reader.read();
		if (done) break;
		take(value);
		if (n % 16 === 15) await pause();
	}
}

export const faultOf = (error) => (error ? `${error.code ?? "error"}: ${short(error.message, 1e6)}` : "");

const ending = (of, value) => short(of.error ? faultOf(of.error) : value);

/** What an entry says; `told` is the badge of its status beside it, if there is one */
export function summary(e, told) {
	if (e.left) return "content left out";
	const d = e.data, o = d.outcome ?? d, g = d.delegation ?? {};
	switch (e.kind) {
		case "run.started": return `${d.program} ${short(d.input)}`;
		case "tool.called": return `${d.tool}(${short(d.arguments)})`;
		case "tool.returned": return ending(d, d.result);
		case "model.asked": return `${d.model} ${d.added?.length ? `+${d.added.length}: ${short(said(d.added.at(-1)))}` : ""}`;
		case "model.answered": return ending(d, said(d.message) || (d.message?.tool_calls ?? []).map((c) => c?.function?.name ?? c?.name).join(", "));
		case "child.started": return `${g.agent ?? g.program} ${short(g.brief)}`;
		case "child.finished": case "run.finished": return `${told ? "" : `${o.status ?? ""} `}${ending(o, o.summary ?? o.output)}`;
		case "limit.hit": return `${d.limit}: ${d.observed} of ${d.allowed}`;
		case "note.added": case "input.asked": case "input.given": return short(d.text ?? d.question ?? d.answer);
		case "unreadable": return "this line is not an entry";
		default: return short(d);
	}
}

/** The words of a message, of whichever form */
export function said(message) {
	const parts = message?.content ?? message?.text ?? message?.parts ?? "";
	if (typeof parts === "string") return parts;
	if (!Array.isArray(parts)) return short(parts);
	return parts.map((p) => short([p, p?.text, p?.content].find((each) => typeof each === "string" || each?.$blob), 1e6)).filter(Boolean).join("\n");
}

/** The scope of an entry: of whom it is in its run */
export const scopeOf = (e) => (e?.call ?? "").split(/[#@]/)[0];

/** How what an entry tells of ended, if it tells of an end */
export const statusOf = (e) => String(e.data.outcome?.status ?? e.data.status ?? (e.kind === "limit.hit" ? "limit" : e.kind === "effect.cancelled" ? "cancelled" : ""));
