/** The page's own check of its logs: the chain of hashes, the numbers, both ends of each child, and the end. */
import { pause } from "./dom.js";

const encoder = new TextEncoder();
const HEADER = encoder.encode("refold/1 header\n"), EVENT = encoder.encode("refold/1 event\n");
const TAIL = 76; // ,"hash":"<64 hex>"}\n
const decoder = new TextDecoder();
const value = (digit) => (digit < 58 ? digit - 48 : digit - 87);
/** Whether 64 digits are those of a digest; no text is made, for there are many. */
const same = (digits, digest) => digits.length === 64 && new Uint8Array(digest).every((byte, i) => byte === value(digits[2 * i]) * 16 + value(digits[2 * i + 1]));

/** Check all logs of a store, in slices. */
export async function check(store, tell) {
	const now = { state: "checking", done: 0, all: [...store.logs.values()].reduce((n, log) => n + log.said.entries, 0), why: "", problems: [], open: [] };
	if (!store.page.content) return { ...now, state: "unable", why: "content was left out, and lines cannot be hashed without it" };
	if (!globalThis.crypto?.subtle) return { ...now, state: "unable", why: "this browser gives no WebCrypto here" };
	const told = new Map();
	let scratch = new Uint8Array(65_536);
	for (const log of store.logs.values()) {
		const bad = (seq, what) => { if (now.problems.length < 100) now.problems.push({ log: log.id, seq, what }); };
		const children = new Map(), said = log.said;
		told.set(log.id, children);
		if (log.fault) { bad(0, log.fault); continue; }
		if (log.lines < said.entries) bad(log.lines, "entries are missing here");
		let before = new Uint8Array(0), last = before;
		for (let seq = 0; seq < log.lines;) {
			const until = performance.now() + 12, stack = [];
			do {
				const line = log.line(seq), end = line.length + 1 - TAIL, domain = seq ? EVENT : HEADER;
				last = line.subarray(Math.max(0, end + 9), end + 73);
				if (end <= 0 || decoder.decode(line.subarray(end, end + 9)) !== ',"hash":"' || line[line.length - 1] !== 125) bad(seq, "the line does not end with its hash");
				else {
					// One buffer for all: digest() takes a copy before it returns.
					const size = domain.length + before.length + end;
					if (scratch.length < size) scratch = new Uint8Array(2 * size);
					const bytes = scratch.subarray(0, size);
					bytes.set(domain);
					bytes.set(before, domain.length);
					bytes.set(line.subarray(0, end), domain.length + before.length);
					const at = seq, stored = last;
					stack.push(crypto.subtle.digest("SHA-256", bytes).then((digest) => { if (!same(stored, digest)) bad(at, "its bytes are not those that were hashed"); }));
				}
				before = last;
				const start = decoder.decode(line.subarray(0, 80));
				if (!start.startsWith(`{"seq":${seq},"`)) bad(seq, `it does not say that it is entry ${seq}`);
				if (start.includes('"kind":"child.')) {
					const entry = log.entry(seq), call = entry.call ?? "";
					if (entry.kind === "child.started") children.set(call, { started: decoder.decode(last), number: entry.data.number, seq });
					else if (entry.kind === "child.finished" && children.has(call)) children.get(call).ended = entry.data.outcome?.child ?? {};
				}
				seq++;
				now.done++;
			} while (seq < log.lines && stack.length < 400 && performance.now() < until);
			await Promise.all(stack);
			tell(now);
			await pause();
		}
		const head = decoder.decode(last);
		if (head !== said.head) bad(Math.max(0, log.lines - 1), "the last entry has another hash than when this page was written");
		// Both ends of a child: its first line names the start, the parent's delivery its head and length.
		const above = said.parent, first = log.entry(0), end = log.entry(log.lines - 1);
		let kept = end?.kind === "run.finished";
		if (kept && log.filled > log.offsets[log.lines]) bad(log.lines, "something stands behind its end");
		if (above) {
			const start = [...(told.get(above.log)?.values() ?? [])].find((each) => each.seq === above.seq);
			if (!start || start.started !== first?.data?.parent?.hash) bad(0, "it answers another start than its parent's log has");
			else if (start.ended?.head) {
				kept = start.ended.head === head && start.ended.events === log.lines;
				if (!kept) bad(Math.max(0, log.lines - 1), "its parent was told of another end");
			}
		}
		if (!kept) now.open.push(log.id);
	}
	now.problems.sort((a, b) => a.log - b.log || a.seq - b.seq);
	return { ...now, state: "done" };
}
