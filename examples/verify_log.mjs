// Verify logs with node alone, by the text of docs/reading.md.
// `node verify_log.mjs audit.jsonl …` prints one JSON object for each tree of logs.
import { createHash } from "node:crypto";
import { lstatSync, readFileSync, readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { argv } from "node:process";
const NOT_CHECKED = "state and session digests, values inside members, recorded folders, chains of messages, signatures";
const LEAVE_INTACT = new Set(["torn tail", "log cut short", "start missing", "child log missing"]);
const RULES = JSON.parse(readFileSync(new URL("log_rules.json", import.meta.url), "utf8")); // tables of the page
const { kinds: KINDS, completes: OF, tails: TAILS } = RULES;
const REQUESTS = new Set(Object.values(OF));
const [LINE, KEY] = [new RegExp(`^${RULES.line}$`, "s"), new RegExp(`^${RULES.call}$`)];
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const type = (path) => lstatSync(path, { throwIfNoEntry: false });
const stem = (path) => path.slice(0, -".jsonl".length);
const IS = { object: isObject, array: Array.isArray, integer: Number.isInteger, any: () => true };
for (const [what, name] of [["text", "string"], ["boolean", "boolean"], ["number", "number"]]) IS[what] = (value) => typeof value === name;
const ascii = (bytes) => bytes.toString("latin1");
function sha(domain, ...content) {
  const hash = createHash("sha256").update(`refold/1 ${domain}\n`);
  return content.reduce((made, each) => made.update(each), hash).digest("hex");
}
function follows(line, before) {
  const own = sha(before.length ? "event" : "header", before, line.subarray(0, -76));
  return ascii(line.subarray(-76)) === `,"hash":"${own}"}\n`;
}
const NUMBER = /"(?:\\.|[^"\\])*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?/g;
const isLong = (text) => /[.eE]/.test(text) || BigInt(text) < -(2n ** 63n) || BigInt(text) >= 2n ** 64n;
function parsed(line) { // a number that is not written as an integer of 64 bits is no integer here either
  const text = new TextDecoder("utf-8", { fatal: true }).decode(line);
  const told = (each) => each[0] === '"' || !Number.isFinite(Number(each)) || !isLong(each) ? each : "0.5";
  return JSON.parse(text.replace(NUMBER, told), (name, value) => {
    const isText = typeof value !== "string" || value.isWellFormed();
    if (!isText || !name.isWellFormed() || Math.abs(value) === Infinity) throw Error("no JSON");
    return value;
  });
}
function merkle(level) {
  if (level.length < 2) return level[0] ?? sha("leaf");
  const pairs = level.filter((_, at) => at % 2 === 0).map((one, at) => [one, level[2 * at + 1]]);
  return merkle(pairs.map(([one, other]) => (other ? sha("node", one + other) : one)));
}
const lineAt = (content, at) => content.subarray(at, content.indexOf(10, at) + 1 || content.length);
function isTorn(rest, at) {
  let isZeroed = false, before = null;
  for (let from = 0, to; from < rest.length; from = to) {
    to = Math.min(rest.length, from + 512 - ((at + from) % 512));
    isZeroed ||= rest.subarray(from, to).every((byte) => byte === 0);
  }
  for (let from = 0, line; from < rest.length; from += line.length, before = line.subarray(-67, -3)) {
    isZeroed = !(follows(line = lineAt(rest, from), before ?? "") && before) && isZeroed;
  }
  return isZeroed || !rest.includes(10);
}
function fits(members, data) {
  const isRight = ([name, what], value = data[name.replace("?", "")]) => value === undefined
    ? name.endsWith("?") : (IS[what] ?? ((each) => what.split("|").includes(each)))(value);
  const isKnown = (name) => name in members || `${name}?` in members;
  return Object.entries(members).every((each) => isRight(each)) && Object.keys(data).every(isKnown);
}
function counted(kind, call, text) {
  const tail = kind === "limit.hit" && text.startsWith('{"limit":"timeout_seconds"') ? "observed" : TAILS[kind];
  const cut = tail ? text.lastIndexOf(`,"${tail}":`) : -1;
  const rest = cut >= 0 ? text.slice(0, cut) : tail && text.startsWith(`{"${tail}":`) ? "{" : text;
  return BigInt(`0x${sha("data", `${kind}\0${call ?? ""}\0`, Buffer.from(rest, "latin1"))}`);
}
const hex = (sum) => (sum % (1n << 256n)).toString(16).padStart(64, "0");
class Log {
  constructor(path, root, start, parent) {
    Object.assign(this, { path, start, parent, blobs: `${stem(root)}.blobs`, bad: [], isIntact: true, sum: 0n });
    Object.assign(this, { entries: 0, head: "", broken: "", hasLooked: false, started: {}, finished: null });
    Object.assign(this, { starts: new Map(), calls: new Map(), open: new Map(), ordinals: {}, late: new Set() });
    const isHeld = this.read(readFileSync(path)), end = start?.outcome?.child;
    const how = this.entries < end?.events ? "log cut short" : "another end";
    if (end && ["", "torn tail"].includes(this.broken) && !isHeld) this.say(how, this.entries + 1);
    this.isComplete = Boolean(this.finished || isHeld) && !this.broken;
    const isLost = this.started.parent?.run === parent?.started.run_id && !parent?.finished;
    if (parent && !start && !parent.broken) this.say(isLost ? "start missing" : "unnamed child", 1);
  }
  say(what, line) {
    this.isIntact = this.bad.push([line, what]) > 0 && this.isIntact && LEAVE_INTACT.has(what);
  }
  read(content) {
    const end = this.start?.outcome?.child;
    let [at, before, isHeld] = [0, "", false];
    while (!this.broken && (at < content.length || !content.length)) {
      const line = lineAt(content, at), begins = at ? `{"seq":${this.entries},` : RULES.first;
      const isNext = ascii(line.subarray(0, begins.length)) === begins;
      if (line.length > 2 ** 20 || !isNext || !follows(line, before)) {
        const isBegun = RULES.first.startsWith(ascii(line).replace(/\0+$/, "")) || line.subarray(0, 512).every((byte) => !byte);
        this.broken = (at || isNext || isBegun) && isTorn(content.subarray(at), at) ? "torn tail" : "chain";
        break;
      }
      let row;
      try { row = parsed(line); } catch { /* no entry */ }
      const areTexts = typeof row?.kind === "string" && typeof (row.call ?? "") === "string";
      if (!areTexts || !isObject(row.data) || !isObject(row.meta)) this.broken = "no entry";
      else {
        [at, before, this.head, this.entries] = [at + line.length, line.subarray(-67, -3), row.hash, this.entries + 1];
        this.take(row, LINE.exec(ascii(line)));
        if (end?.events === this.entries) isHeld = this.head === end.head;
      }
    }
    if (this.broken) this.say(this.broken, this.entries + 1);
    return isHeld && this.entries === end.events;
  }
  plain(value, at) { // data as they were; a text that is kept apart is looked at, and empty
    if (Array.isArray(value)) return value.map((each) => this.plain(each, at));
    if (!isObject(value)) return value;
    const names = Object.keys(value), { $blob: name, bytes, $esc: inner = value } = value;
    if ("$blob" in value) {
      if (names.length !== 2 || !Number.isInteger(bytes) || !/^[0-9a-f]{64}$/.test(name)) throw Error("marker");
      const folder = join(this.blobs, name.slice(0, 2)), place = join(folder, name);
      const isThere = type(place)?.isFile() && ![folder, this.blobs].some((each) => type(each).isSymbolicLink());
      const content = isThere ? readFileSync(place) : Buffer.alloc(0);
      if (content.length !== bytes || sha("blob", content) !== name) this.say("blob", at);
      return "";
    }
    if (inner !== value ? names.length > 1 || !isObject(inner) : names.some((each) => each.startsWith("$"))) throw Error("marker");
    return Object.fromEntries(Object.entries(inner).map(([each, of]) => [each, this.plain(of, at)]));
  }
  take(row, line) {
    const { kind, call, hash } = row, at = row.seq + 1, isOurs = kind in KINDS;
    let data = null;
    try { data = this.plain(row.data, at); } catch { /* a marker is wrong */ }
    if (!line || !data || (isOurs && !fits(KINDS[kind], data))) return this.say("schema or marker", at);
    if (!isOurs && !kind.startsWith("x-")) this.say("unknown kind", at);
    let ok = this.isInOrder(row, data);
    if (!RULES.undigested.includes(kind)) this.sum += counted(kind, call, line[1]);
    if (kind === "run.started" && at === 1) {
      this.started = data;
      ok &&= !(data.depth > data.limits.max_depth);
      const above = this.parent?.started, start = this.start;
      if (start && above.run_id !== undefined) {
        const { run, call: from, hash: of, ...rest } = data.parent ?? {};
        const path = [above.path, start.call].filter(Boolean).join(" > ");
        ok &&= JSON.stringify([run, from, of, rest, data.run_id, data.root_id, data.depth, data.path])
          === JSON.stringify([above.run_id, start.call, start.hash, {}, start.run_id, above.root_id, above.depth + 1, path]);
      }
    } else if (kind === "child.started") {
      ok &&= data.number === this.starts.size + 1 && !(this.starts.size >= this.started.limits?.max_children);
      this.calls.set(call, { call, hash, run_id: data.run_id });
      this.starts.set(data.number, this.calls.get(call));
    } else if (kind === "run.finished") {
      this.finished = data;
      const ends = [...this.starts].sort(([a], [b]) => a - b).map(([, each]) => each.outcome?.child).filter(Boolean);
      const root = merkle(ends.map((end) => sha("leaf", `${end.run} ${end.head} ${end.events}`)));
      ok &&= data.entries === at && data.data_digest === hex(this.sum) && data.children_root === root;
    }
    return ok || this.say(`the rules of ${kind}`, at);
  }
  isInOrder({ seq, kind, call, cause }, data) {
    const asked = OF[kind], start = this.calls.get(call), [held, isProgram] = this.open.get(call) ?? ["", false];
    const closed = () => { const [was] = this.open.get(call) ?? [""]; this.open.delete(call); return was; };
    let ok = (seq === 0) === (kind === "run.started") && !this.finished && (cause === undefined || cause < seq);
    if (call === undefined) ok &&= !REQUESTS.has(kind) && !asked;
    else if (!asked || !held) {
      const [, scope, mark, number] = KEY.exec(call) ?? [], last = this.ordinals[scope] ?? 0;
      ok &&= mark !== undefined && (mark === "@") === (kind === "timer.fired");
      if (mark === "#") {
        ok &&= Number(number) === last + 1 || (Number(number) <= last && !REQUESTS.has(kind));
        this.ordinals[scope] = Math.max(last, Number(number));
      }
    }
    if (REQUESTS.has(kind)) this.open.set(call, [kind, data.delegates === true]);
    else if (asked) {
      if (asked === "child.started" && start) start.outcome = data.outcome;
      if (asked === "tool.called" && data.error?.code === "timed_out") this.late.add(call);
      if (asked !== "child.started" || start || data.outcome.status !== "rejected") ok = closed() === asked && ok;
    } else if (kind === "effect.cancelled" && data.kind !== "run") {
      ok &&= held.startsWith(`${data.kind}.`);
      if (data.kind !== "child") this.open.set(call, ["cancelled", false]);
      else if (start) start.isCancelled = true;
    } else if (kind === "effect.late" && !this.late.delete(call)) {
      ok = (closed() === "cancelled" || (held !== "" && data.kind === "child")) && ok;
    }
    ok &&= !(kind === "clock.read" && this.hasLooked);
    const isStop = `${kind} ${data.limit ?? data.kind}`, isOutcome = asked && !isProgram && (asked !== "child.started" || start);
    const ways = ["limit.hit timeout_seconds", "effect.cancelled run", "timer.fired", "effect.late", "tokens.granted"];
    this.hasLooked = kind === "clock.read" || (this.hasLooked && !(isOutcome || ways.includes(isStop) || ways.includes(kind)));
    return ok;
  }
  below() { // where logs of children lie, or should, with their starts; last those that no start names
    const name = (number) => join(dirname(this.path), `${basename(stem(this.path))}.${number}.jsonl`);
    const numbers = readdirSync(dirname(this.path)).map((file) => /\.([1-9][0-9]*)\.jsonl$/.exec(file)?.[1])
      .filter((number) => number && type(name(number)) && !type(name(number)).isSymbolicLink()).map(Number);
    const isNeeded = (start) => start.outcome ? start.outcome.child?.events > 0 : this.finished;
    const named = [...this.starts].filter(([number, start]) => numbers.includes(number) || isNeeded(start));
    const others = [...new Set(numbers)].sort((a, b) => a - b).filter((number) => !this.starts.has(number));
    return [...named, ...others.map((number) => [number, null])].map(([number, start]) => [name(number), start]);
  }
}
function verify(root) {
  const logs = new Map([[root, new Log(root, root, null, null)]]), waiting = [...logs.values()], known = {};
  for (const above of waiting) for (const [path, start] of above.below()) {
    logs.set(path, type(path)?.isFile() ? new Log(path, root, start, above) : null);
    waiting.push(...[logs.get(path)].filter(Boolean));
  }
  for (const log of waiting.toReversed()) {
    let sum = log.isIntact && log.isComplete ? log.sum : null;
    for (const [number, { call, outcome, isCancelled }] of log.starts) {
      const tree = known[`${stem(log.path)}.${number}.jsonl`];
      if (outcome?.child && !isCancelled && sum !== null) sum = tree ? sum + BigInt(`0x${sha("tree", `${call}\0${tree}`)}`) : null;
    }
    if (sum !== null) known[log.path] = hex(sum);
    if (sum !== null && (log.finished?.tree_digest ?? hex(sum)) !== hex(sum)) log.say("tree digest", log.entries);
  }
  const found = [...logs].map(([path, log]) => [basename(path), ...((log ? log.bad.sort(([a], [b]) => a - b)[0] : [1, "child log missing"]) ?? [])]);
  const answers = { intact: waiting.every((log) => log.isIntact), complete: [...logs.values()].every((log) => log?.isComplete) };
  return { ...answers, first: found.find(([, line]) => line) ?? null, "not checked": NOT_CHECKED };
}
const codes = new Set(argv.length > 2 ? [] : [2]); // 0 all intact and complete, 2 none or one cannot be opened, 3 not so
for (const log of argv.slice(2)) {
  try {
    const found = verify(log);
    console.log(JSON.stringify({ log, ...found }));
    codes.add(found.intact && found.complete ? 0 : 3);
  } catch (error) {
    if (!error.syscall) throw error;
    console.error(error.message);
    codes.add(2);
  }
}
process.exitCode = codes.has(2) ? 2 : Math.max(...codes);
