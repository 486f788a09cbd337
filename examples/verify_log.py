"""Verify logs with the standard library alone, by docs/reading.md: `python verify_log.py audit.jsonl …`."""

# fmt: off
import hashlib, json, math, re, sys
from itertools import pairwise, zip_longest
from pathlib import Path

NOT_CHECKED = "state and session digests, values inside members, recorded folders, chains of messages, signatures"
LEAVE_INTACT = {"torn tail", "log cut short", "start missing", "child log missing"}
RULES = json.loads(Path(__file__).with_name("log_rules.json").read_text())  # the tables of the page
KINDS, OF, TAILS = RULES["kinds"], RULES["completes"], RULES["tails"]
TYPES = {"text": (str,), "integer": (int,), "object": (dict,), "array": (list,), "boolean": (bool,), "number": (int, float)}
KEY, LINE, FIRST = re.compile(RULES["call"]), re.compile(RULES["line"].encode()), RULES["first"].encode()

def sha(domain, content):
    return hashlib.sha256(b"refold/1 " + domain + b"\n" + content).hexdigest()

def number(text):
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return int(text) if text.lstrip("-").isdigit() and -(2**63) <= int(text) < 2**64 else value

def parsed(line):
    row = json.loads(line.decode(), parse_int=number, parse_float=number, parse_constant=number)
    json.dumps(row, ensure_ascii=False).encode()  # half a surrogate pair is no text
    return row

def follows(line, before):
    own = sha(b"event" if before else b"header", before + line[:-76])
    return line.endswith(b',"hash":"%b"}\n' % own.encode())

def merkle(level):
    if len(level) < 2:
        return level[0] if level else sha(b"leaf", b"")
    pairs = zip_longest(level[::2], level[1::2])
    return merkle([sha(b"node", f"{one}{other}".encode()) if other else one for one, other in pairs])

def is_torn(rest, at):
    cuts = [0, *range(512 - at % 512, len(rest), 512), len(rest)]
    is_later = any(follows(line, one[-67:-3]) for one, line in pairwise(re.findall(rb"[^\n]*\n|[^\n]+", rest)))
    return b"\n" not in rest or (any(not rest[a:b].strip(b"\0") for a, b in pairwise(cuts)) and not is_later)

def fits(members, data):
    for name, what in members.items():
        value = data.get(name.rstrip("?"), data)  # the data stand for no value
        is_right = what == "any" or (type(value) in TYPES[what] if what in TYPES else value in what.split("|"))
        if not (name.endswith("?") if value is data else is_right):
            return False
    return all(name in members or f"{name}?" in members for name in data)

def counted(kind, call, data):
    if tail := "observed" if kind == "limit.hit" and b'{"limit":"timeout_seconds"' in data else TAILS.get(kind):
        cut = data.rfind(b',"%b":' % tail.encode())
        data = data[:cut] if cut >= 0 else data[:1] if data.startswith(b'"%b":' % tail.encode(), 1) else data
    return int(sha(b"data", b"\0".join((kind.encode(), (call or "").encode(), data))), 16)

class Log:
    def __init__(self, path, root, start=None, parent=None):
        self.path, self.start, self.parent, self.bad = path, start, parent, []
        self.blobs = root.with_name(root.name.removesuffix(".jsonl") + ".blobs")
        self.entries, self.head, self.broken, self.looked, self.sum = 0, "", "", False, 0
        self.started, self.finished, self.starts, self.calls, self.is_intact = {}, None, {}, {}, True
        self.open, self.ordinals, self.late, self.anchor = {}, {}, set(), (start or {}).get("outcome", {}).get("child")
        is_held = self.read(path.read_bytes())
        if self.anchor and self.broken in ("", "torn tail") and not is_held:
            self.say("log cut short" if self.entries < self.anchor["events"] else "another end", self.entries + 1)
        self.complete = (self.finished is not None or is_held) and not self.broken
        if parent and not start and not parent.broken:
            is_lost = self.started.get("parent", {}).get("run") == parent.started.get("run_id") and not parent.finished
            self.say("start missing" if is_lost else "unnamed child", 1)
    def say(self, what, line):
        self.bad.append((line, what))
        self.is_intact = self.is_intact and what in LEAVE_INTACT
    def read(self, content):
        at, before, is_held = 0, b"", False
        while not self.broken and (at < len(content) or not content):
            line = content[at : content.find(b"\n", at) + 1 or len(content)]
            if len(line) > 2**20 or not line.startswith(b'{"seq":%d,' % self.entries if at else FIRST) or not follows(line, before):
                is_log = at or not line[:512].strip(b"\0") or FIRST.startswith(line.rstrip(b"\0")) or line.startswith(FIRST)
                self.broken = "torn tail" if is_log and is_torn(content[at:], at) else "chain"
                break
            try:
                row = parsed(line)
                kind, data = row["kind"], {**row["data"]}
                is_entry = isinstance(kind, str) and type(row["meta"]) is dict and isinstance(row.get("call"), str | None)
            except (ValueError, KeyError, TypeError, RecursionError):
                is_entry = False
            if not is_entry:
                self.broken = "no entry"
                break
            at, before, self.entries, self.head = at + len(line), line[-67:-3], self.entries + 1, row["hash"]
            self.take(row, kind, data, LINE.fullmatch(line))
            is_held = self.head == self.anchor["head"] if self.anchor and self.entries == self.anchor["events"] else is_held
        if self.broken:
            self.say(self.broken, self.entries + 1)
        return is_held and self.entries == self.anchor["events"]
    def plain(self, value, at):
        # Data as they were; a text that is kept apart is looked at, and empty.
        if not isinstance(value, dict):
            return [self.plain(each, at) for each in value] if isinstance(value, list) else value
        if "$blob" in value:
            name, size = value["$blob"], value.get("bytes")
            if len(value) != 2 or type(size) is not int or not re.fullmatch("[0-9a-f]{64}", name):
                raise ValueError(name)
            place = self.blobs / name[:2] / name
            is_link = any(each.is_symlink() for each in (place, place.parent, self.blobs))
            content = place.read_bytes() if place.is_file() and not is_link else b""
            if (len(content), sha(b"blob", content)) != (size, name):
                self.say("blob", at)
            return ""
        inner = value.get("$esc", value)
        if len(value) > 1 if "$esc" in value else any(name.startswith("$") for name in value):
            raise ValueError(value)
        return {name: self.plain(each, at) for name, each in inner.items()}
    def take(self, row, kind, data, line):
        at, call, is_ours = row["seq"] + 1, row.get("call"), kind in KINDS
        try:
            data = self.plain(data, at)
        except (ValueError, TypeError, AttributeError, RecursionError):
            line = None
        if not line or (is_ours and not fits(KINDS[kind], data)):
            return self.say("schema or marker", at)
        if not is_ours and not kind.startswith("x-"):
            self.say("unknown kind", at)
        ok = self.is_in_order(row, kind, call, data)
        self.sum += 0 if kind in RULES["undigested"] else counted(kind, call, line[1])
        if kind == "run.started" and at == 1:
            self.started, deepest = data, data["limits"].get("max_depth")
            ok &= type(deepest) is not int or data["depth"] <= deepest
            if self.start and self.parent.started:
                above, start = self.parent.started, self.start
                own = {"run": above["run_id"], "call": start["call"], "hash": start["hash"]}
                path = " > ".join(filter(None, (above["path"], start["call"])))
                want = [own, start["run_id"], above["root_id"], above["depth"] + 1, path]
                ok &= [data.get(name) for name in ("parent", "run_id", "root_id", "depth", "path")] == want
        elif kind == "child.started":
            most = self.started.get("limits", {}).get("max_children")
            start = {"call": call, "run_id": data["run_id"], "hash": row["hash"]}
            ok &= data["number"] == len(self.starts) + 1 and (type(most) is not int or len(self.starts) < most)
            self.starts[data["number"]] = self.calls[call] = start
        elif kind == "run.finished":
            ends = [self.starts[number].get("outcome", {}).get("child") for number in sorted(self.starts)]
            root, self.finished = merkle([sha(b"leaf", f"{e['run']} {e['head']} {e['events']}".encode()) for e in ends if e]), data
            ok &= (data.get("entries"), data.get("data_digest"), data.get("children_root")) == (at, f"{self.sum % 2**256:064x}", root)
        return ok or self.say(f"the rules of {kind}", at)
    def is_in_order(self, row, kind, call, data):
        cause, asked, (held, is_program) = row.get("cause"), OF.get(kind), self.open.get(call, ("", False))
        is_request, start, key = kind in OF.values(), self.calls.get(call), KEY.fullmatch(call or "")
        ok = (row["seq"] == 0) == (kind == "run.started") and self.finished is None and (cause is None or cause < row["seq"])
        if call is None:
            ok &= not is_request and not asked
        elif not asked or not held:
            ok &= bool(key) and (key[2] == "@") == (kind == "timer.fired")
            if key and key[2] == "#":
                last, number = self.ordinals.get(key[1], 0), int(key[3])
                ok &= number == last + 1 or (number <= last and not is_request)
                self.ordinals[key[1]] = max(last, number)
        if is_request:
            self.open[call] = kind, bool(data.get("delegates"))
        elif asked:
            if asked == "child.started":
                self.calls.get(call, {})["outcome"] = data["outcome"]
            if asked == "tool.called" and (data.get("error") or {}).get("code") == "timed_out":
                self.late.add(call)
            if asked != "child.started" or start or data["outcome"].get("status") != "rejected":
                ok &= self.open.pop(call, ("",))[0] == asked
        elif kind == "effect.cancelled" and data["kind"] != "run":
            ok &= held.startswith(data["kind"] + ".")
            self.open[call] = (held, is_program) if data["kind"] == "child" else ("cancelled", False)
            self.calls.get(call, {})["cancelled"] = True
        elif kind == "effect.late" and not (call in self.late and self.late.remove(call) is None):
            ok &= self.open.pop(call, ("",))[0] == "cancelled" or (held != "" and data["kind"] == "child")
        is_outcome = asked and not is_program and (asked != "child.started" or start)
        is_stop = (kind, data.get("limit", data.get("kind"))) in (("limit.hit", "timeout_seconds"), ("effect.cancelled", "run"))
        ok &= not (kind == "clock.read" and self.looked)
        is_world = is_outcome or is_stop or kind in ("timer.fired", "effect.late", "tokens.granted")
        self.looked = kind == "clock.read" or (self.looked and not is_world)
        return ok
    def below(self):
        # Where logs of children lie, or should, with their starts; last those that no start names.
        stem = self.path.name.removesuffix(".jsonl")
        name = re.compile(re.escape(stem) + r"\.([1-9][0-9]*)\.jsonl")
        plain = (path for path in self.path.parent.iterdir() if not path.is_symlink())
        files = {int(found[1]): path for path in plain if (found := name.fullmatch(path.name))}
        for number, start in self.starts.items():
            end = (start.get("outcome", {}).get("child") or {}).get("events", 0)
            if number in files or (end if "outcome" in start else self.finished):
                yield files.get(number, self.path.with_name(f"{stem}.{number}.jsonl")), start
        yield from ((files[number], None) for number in sorted(files.keys() - self.starts.keys()))

def verify(root):
    logs, known = {Path(root): Log(Path(root), Path(root))}, {}
    waiting = [*logs.values()]
    for above, path, start in ((log, *each) for log in waiting for each in log.below()):
        logs[path] = Log(path, Path(root), start, above) if path.is_file() and not path.is_symlink() else None
        waiting += [logs[path]] if logs[path] else []
    for log in reversed(waiting):
        total, stem = log.sum if log.is_intact and log.complete else None, str(log.path).removesuffix(".jsonl")
        for number, start in log.starts.items():
            if start.get("outcome", {}).get("child") and "cancelled" not in start and total is not None:
                tree = known.get(f"{stem}.{number}.jsonl")
                total = total + int(sha(b"tree", f"{start['call']}\0{tree}".encode()), 16) if tree else None
        known[str(log.path)] = f"{total % 2**256:064x}" if total is not None else ""
        if total is not None and (log.finished or {}).get("tree_digest", known[str(log.path)]) != known[str(log.path)]:
            log.say("tree digest", log.entries)
    bad = [(path.name, *(min(log.bad) if log else (1, "child log missing"))) for path, log in logs.items() if not log or log.bad]
    answers = {"intact": all(log.is_intact for log in waiting), "complete": all(log and log.complete for log in logs.values())}
    return answers | {"first": bad[0] if bad else None, "not checked": NOT_CHECKED}

if __name__ == "__main__":  # exit codes: 0 all intact and complete, 2 none or one cannot be opened, 3 not so
    codes = set() if sys.argv[1:] else {2}
    for argument in sys.argv[1:]:
        try:
            found = verify(argument)
            print(json.dumps({"log": argument, **found}))
            codes.add(0 if found["intact"] and found["complete"] else 3)
        except OSError as error:
            print(error, file=sys.stderr)
            codes.add(2)
    sys.exit(2 if 2 in codes else max(codes))
