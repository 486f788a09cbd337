/** The page's own check of its logs: hashes, numbers, both ends of each child, and the end. */
import { pause } from "./dom.js";

const encoder = new TextEncoder(),
	decoder = new TextDecoder();
const HEADER = encoder.encode("refold/1 header\n"),
	EVENT = encoder.encode("refold/1 event\n");
const TAIL = 76; // ,"hash":"<64 hex>"}\n
/** @param {number} digit */
const value = (digit) => (digit < 58 ? digit - 48 : digit - 87);
/** Whether 64 digits are those of a digest; no text is made, for there are many.
 * @param {Uint8Array} digits @param {ArrayBuffer} digest */
const same = (digits, digest) =>
	digits.length === 64 &&
	new Uint8Array(digest).every((byte, i) => byte === value(digits[2 * i]) * 16 + value(digits[2 * i + 1]));
/** @param {Uint8Array} line */
const hashIn = (line) => line.subarray(Math.max(0, line.length - 66), Math.max(0, line.length - 2));
/** @param {any} log @param {number} seq */
const hashOf = (log, seq) => (seq >= 0 && seq < log.lines ? decoder.decode(hashIn(log.line(seq))) : "");
let scratch = new Uint8Array(65_536);

/** Check what has come of all logs since the last check, in slices. One check at a time.
 * @param {any} store @param {(now: any) => void} tell */
export async function check(store, tell) {
	const logs = [...store.logs.values()];
	/** @type {any} */
	const now = {
		state: "checking",
		done: 0,
		all: logs.reduce((n, log) => n + log.facts.entries, 0),
		why: "",
		problems: [],
		open: [],
	};
	/** @param {string} why */
	const unable = (why) => ({ ...now, state: "unable", why });
	if (!store.run.content) return unable("lines cannot be hashed, because content was left out");
	if (!globalThis.crypto?.subtle) return unable("WebCrypto is not available in this browser");
	for (const log of logs) await chain(log, store.run.verdict.problems, now, tell);
	if (store.ask && logs.some((log) => log.lines < log.facts.entries))
		return unable("the server has not sent the whole log");
	for (const log of logs) bonds(log, store, now);
	return { ...now, state: "done" };
}

/** Check the new lines of a log; of a torn tail, which may have lines, none.
 * @param {any} log @param {any[]} told @param {any} now @param {(now: any) => void} tell */
async function chain(log, told, now, tell) {
	const at = (log.checked ??= { seq: 0, before: new Uint8Array(0), children: new Map(), problems: [] });
	/** @param {number} seq @param {string} what */
	const bad = (seq, what) => at.problems.push({ log: log.id, seq, what });
	const most = (at.most = told.some((each) => each.log === log.id && each.what.startsWith("torn tail"))
		? Math.min(log.lines, log.facts.entries)
		: log.lines);
	now.done += at.seq;
	while (at.seq < most && at.problems.length < 100) {
		const until = performance.now() + 12,
			stack = [];
		let before = at.before;
		do {
			const seq = at.seq++,
				line = log.line(seq),
				end = line.length + 1 - TAIL,
				domain = seq ? EVENT : HEADER,
				last = hashIn(line);
			if (
				end <= 0 ||
				decoder.decode(line.subarray(end, end + 9)) !== ',"hash":"' ||
				line[line.length - 1] !== 125
			)
				bad(seq, "the line does not end with its hash");
			else {
				// One buffer for all: digest() takes a copy before it returns.
				const size = domain.length + before.length + end;
				if (scratch.length < size) scratch = new Uint8Array(2 * size);
				const bytes = scratch.subarray(0, size);
				bytes.set(domain);
				bytes.set(before, domain.length);
				bytes.set(line.subarray(0, end), domain.length + before.length);
				stack.push(
					crypto.subtle.digest("SHA-256", bytes).then((digest) => {
						if (!same(last, digest)) bad(seq, "it does not match its hash");
					}),
				);
			}
			before = last;
			const start = decoder.decode(line.subarray(0, 80));
			if (!start.startsWith(`{"seq":${seq},"`)) bad(seq, `it is not numbered as entry ${seq}`);
			if (start.includes('"kind":"child.')) {
				const entry = log.entry(seq),
					call = entry.call ?? "";
				if (entry.kind === "child.started") at.children.set(call, { started: decoder.decode(last), seq });
				else if (entry.kind === "child.finished" && at.children.has(call))
					at.children.get(call).ended = entry.data.outcome?.child ?? {};
			}
			now.done++;
		} while (at.seq < most && stack.length < 400 && performance.now() < until);
		at.before = before.slice(); // the log's buffer is replaced as it grows
		await Promise.all(stack);
		tell(now);
		await pause();
	}
	at.problems.sort((/** @type {any} */ a, /** @type {any} */ b) => a.seq - b.seq);
}

/** Compare a log with what others say of it; a head, where as many entries have come as it counts.
 * @param {any} log @param {any} store @param {any} now */
function bonds(log, store, now) {
	const { facts } = log;
	const lines = log.checked.most;
	const above = facts.parent;
	/** @param {number} seq @param {string} what */
	const bad = (seq, what) => now.problems.push({ log: log.id, seq, what });
	now.problems.push(...log.checked.problems);
	if (log.fault) bad(0, log.fault);
	else if (lines < facts.entries) bad(lines, "entries are missing at this point");
	else if (hashOf(log, facts.entries - 1) !== facts.head)
		bad(Math.max(0, facts.entries - 1), "the hash of this entry has changed since the page was written");
	let kept = log.entry(lines - 1)?.kind === "run.finished";
	if (above && lines) {
		// Its first line names the start, the parent's delivery its head and length.
		const start = [...(store.logs.get(above.log)?.checked?.children.values() ?? [])].find(
				(each) => each.seq === above.seq,
			),
			ended = start?.ended;
		if (start?.started !== log.entry(0).data?.parent?.hash)
			bad(0, "it does not belong to the start that its parent's log contains");
		else if (ended?.head) {
			kept = ended.events === lines && ended.head === hashOf(log, lines - 1);
			if (!kept && lines >= ended.events) bad(lines - 1, "its parent recorded a different end");
		}
	}
	if (!kept || log.filled > log.offsets[lines]) now.open.push(log.id);
}
