/** Text for people: numbers, times, and characters that hide or move text as escapes. Pure. */

/** Controls but tab and newline, bidirectional and invisible characters, tags, lone surrogates. */
const HIDDEN =
	/[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}]|\p{Cs}/gu;

/** Emoji, and letters of scripts that are written with joiners. */
const JOINED =
	/[\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f\p{sc=Arabic}\p{sc=Devanagari}\p{sc=Bengali}\p{sc=Gujarati}\p{sc=Tamil}\p{sc=Telugu}\p{sc=Kannada}\p{sc=Malayalam}\p{sc=Sinhala}]/u;

/** @param {unknown} value */
export const visible = (value) =>
	String(value).replace(HIDDEN, (c, /** @type {number} */ at, /** @type {string} */ all) => {
		const code = c.codePointAt(0) ?? 0;
		const isJoiner = code === 0x200c || code === 0x200d;
		if (isJoiner && JOINED.test(all.slice(at - 2, at)) && JOINED.test(all.slice(at + 1, at + 3))) return c;
		const digits = code.toString(16);
		if (code < 256) return `\\x${digits.padStart(2, "0")}`;
		return code < 65536 ? `\\u${digits.padStart(4, "0")}` : `\\u{${digits}}`;
	});

/** @param {unknown} n */
export const number = (n) => (typeof n === "number" ? n.toLocaleString("en-US") : "–");

/** @param {number} n @param {string} one @param {string} many */
export const count = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;

/** Of microseconds. @param {number | null | undefined} us */
export function duration(us) {
	if (us === null || us === undefined) return "";
	const s = us / 1e6;
	if (s < 0.001) return `${Math.round(us)} µs`;
	if (s < 1) return `${(us / 1000).toFixed(s < 0.01 ? 1 : 0)} ms`;
	if (s < 100) return `${s.toFixed(s < 10 ? 2 : 1)} s`;
	if (s < 7200) return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
	return `${Math.floor(s / 3600)} h ${Math.round((s % 3600) / 60)} min`;
}

/** Of millionths of a dollar. @param {unknown} micros */
export function money(micros) {
	if (typeof micros !== "number") return "–";
	return `$${(micros / 1e6).toFixed(!micros || micros >= 1e5 ? 2 : micros < 1e4 ? 6 : 4)}`;
}

/** What is known of the cost of an agent and those below it, in few digits; else empty. @param {Agent} agent */
export function costOf({ usage, priced }) {
	const isPart = priced.unpriced && priced.usd_micros;
	const micros = isPart ? priced.usd_micros : usage.cost_usd_micros;
	if (micros === null) return "";
	return (isPart ? "≥ " : "") + money(micros).replace(/0?\.0\d{3,}/, (all) => Number(all).toPrecision(2));
}

/** A word of a command, as a shell takes it. @param {string} word */
export const quoted = (word) => (/^[\w./@%+=:,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/** The tokens of what was spent, without their cost. @param {string} spent */
export const tokensOf = (spent) => spent.replace(/, (at least |cost |\$).*/, "");

/** What became of a file: `~ src/app.py +2 -1`. @param {FileChange} file */
export function fileText({ path, change, lines_added: added, lines_removed: removed, is_sole }) {
	const mark = change === "added" ? "+" : change === "removed" ? "-" : "~";
	const lines = added === null || removed === null ? "" : ` +${added} -${removed}`;
	return `${mark} ${path}${lines}${is_sole === false ? " (perhaps by others)" : ""}`;
}

/** @param {unknown} status */
export const words = (status) => String(status).replaceAll("_", " ");

/** JSON on one line, made no longer than `most` needs: values of 10 MB stay where they are.
 * @param {any} value @param {number} most @param {number} depth @returns {string} */
export function brief(value, most = 300, depth = 0) {
	if (typeof value === "string")
		return depth ? JSON.stringify(value.slice(0, most)) : value.slice(0, most + 1);
	if (value === null || typeof value !== "object") return value === undefined ? "" : String(value);
	if (typeof value.$blob === "string") return `${number(value.bytes)} bytes`;
	if (depth > 4) return "…";
	const parts = [];
	const isList = Array.isArray(value);
	let size = 0;
	for (const key in value) {
		if (size > most) break;
		const part = (isList ? "" : `${key.slice(0, most)}: `) + brief(value[key], most, depth + 1);
		parts.push(part);
		size += part.length + 2;
	}
	return isList ? `[${parts.join(", ")}]` : depth ? `{${parts.join(", ")}}` : parts.join(", ");
}

/** @param {unknown} value */
export function short(value, most = 300) {
	const text = brief(value, most);
	return text.length > most ? `${text.slice(0, most)}…` : text;
}

/** The beginning of a text on one line, without marks of Markdown. @param {string} text */
export const first = (text, most = 200) =>
	short(
		(text ?? "")
			.slice(0, 4 * most)
			.replace(/[#*|`>]+/g, " ")
			.replace(/\s+/g, " ")
			.trim(),
		most,
	);

/** The part of a text around what was searched, on one line. @param {string} text @param {string} needle */
export function snippet(text, needle, around = 70) {
	const at = needle ? text.toLowerCase().indexOf(needle.toLowerCase()) : 0;
	const from = Math.max(0, at - around);
	const to = Math.max(at, 0) + needle.length + 2 * around;
	const middle = text.slice(from, to).replace(/\s+/g, " ");
	return `${from ? "…" : ""}${middle}${to < text.length ? "…" : ""}`;
}

/** The parts of a text, each of which either is what was searched or is not.
 * @param {string} text @param {string} needle @returns {[string, boolean][]} */
export function split(text, needle, most = 2000) {
	if (!needle) return [[text, false]];
	const lower = text.toLowerCase();
	const wanted = needle.toLowerCase();
	/** @type {[string, boolean][]} */
	const parts = [];
	let at = 0;
	// Text whose lower case has another length cannot be marked by places.
	if (lower.length !== text.length) return [[text, false]];
	for (let next = lower.indexOf(wanted); next >= 0 && parts.length < most; next = lower.indexOf(wanted, at)) {
		if (next > at) parts.push([text.slice(at, next), false]);
		at = next + wanted.length;
		parts.push([text.slice(next, at), true]);
	}
	if (at < text.length) parts.push([text.slice(at), false]);
	return parts;
}

/** @param {Fault | null | undefined} error */
export const faultOf = (error) =>
	error ? [error.code, short(error.message ?? "", 1e6)].filter(Boolean).join(": ") : "";
