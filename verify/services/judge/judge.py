#!/usr/bin/env python3
"""Judges a history of a timer service by the rules of docs/history.md, from which alone it was written.

Usage: judge.py FILE... Prints the verdict of each; exit code 0 clean, 1 a rule is broken or a history is void, 2 refused.
"""

import json
import sys

LATE = 1_000_000
CLOCK = 100_000
LISTS = ("lost", "early", "doubled", "superseded", "canceled", "invented")


class Refused(Exception):
    """The file is not a history."""


def integer(line, name):
    value = line.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Refused(f"{name} is no integer")
    return value


def text(line, name):
    value = line.get(name)
    if not isinstance(value, str):
        raise Refused(f"{name} is no text")
    return value


class Command:
    def __init__(self, number, do, key, due, place):
        self.number, self.do, self.key, self.due, self.place = number, do, key, due, place
        self.acked = self.applied = self.refusal = None
        self.pending = False
        self.seen = []  # (wall, id) of its events

    def refused(self):
        return self.refusal is not None and self.applied is None

    def taken(self):
        return not self.refused() and (self.acked is not None or self.applied is not None)

    def doubtful(self):
        return not self.refused() and not self.taken()

    def taken_from(self):
        return self.acked if self.acked is not None else self.applied

    def in_force(self):
        """The wall time from which it is in force, or None."""
        if self.refused():
            return None
        times = [] if self.applied is None else [self.applied]
        if self.acked is not None and not self.pending:
            times.append(self.acked)
        return min(times, default=None)


class History:
    def __init__(self, path):
        self.commands, self.faults, self.events = {}, {}, []
        self.least = self.greatest = self.mono = self.end = None
        with open(path, encoding="utf-8", newline="\n") as file:
            for number, raw in enumerate(file, 1):
                try:
                    self.line(number, raw)
                except (Refused, ValueError) as error:
                    raise Refused(f"line {number}: {error}") from error
        if self.end is None:
            raise Refused("there is no line of kind end")

    def line(self, number, raw):
        if not raw.endswith("\n"):
            raise Refused("it has no end of line")
        line = json.loads(raw)
        if not isinstance(line, dict):
            raise Refused("it is no object")
        kind, wall, mono = text(line, "kind"), integer(line, "wall"), integer(line, "mono")
        if (number == 1) != (kind == "begin") or self.end is not None:
            raise Refused("begin is the first line, end the last")
        if self.mono is not None and mono < self.mono:
            raise Refused("mono falls")
        self.mono, skew = mono, wall - mono
        self.least = skew if self.least is None else min(self.least, skew)
        self.greatest = skew if self.greatest is None else max(self.greatest, skew)
        handle = getattr(self, "on_" + kind, None)
        if handle is None:
            raise Refused(f"the kind {kind} is unknown")
        handle(line, wall, number)

    def on_begin(self, line, _wall, _number):
        text(line, "service")
        if integer(line, "format") != 1:
            raise Refused("the format is not 1")

    def on_end(self, _line, wall, _number):
        self.end = wall

    def on_sent(self, line, _wall, number):
        op, do, key = integer(line, "op"), text(line, "do"), text(line, "key")
        if do not in ("schedule", "move", "cancel"):
            raise Refused(f"a command does not {do}")
        if op < 1 or op in self.commands:
            raise Refused(f"op {op} is not above 0, or not unique")
        due = None if do == "cancel" else integer(line, "due")
        self.commands[op] = Command(op, do, key, due, number)

    def answer(self, line, wall, name):
        op = integer(line, "op")
        command = self.commands.get(op)
        if command is None or getattr(command, name) is not None:
            raise Refused(f"op {op} was not sent, or is {name} twice")
        setattr(command, name, wall)
        return command

    def on_acked(self, line, wall, _number):
        pending = line.get("pending", False)
        if "pending" in line and pending is not True:
            raise Refused("pending is not true")
        self.answer(line, wall, "acked").pending = pending

    def on_applied(self, line, wall, _number):
        self.answer(line, wall, "applied")

    def on_refused(self, line, wall, _number):
        self.answer(line, wall, "refusal")

    def on_seen(self, line, wall, number):
        self.events.append((number, wall, text(line, "key"), integer(line, "op"), text(line, "id")))

    def on_fault(self, line, wall, _number):
        n = integer(line, "n")
        text(line, "what")
        if n < 1 or n in self.faults:
            raise Refused(f"fault {n} is not above 0, or not unique")
        self.faults[n] = {"from": wall, "healed": None, "last": None}

    def on_healed(self, line, wall, _number):
        n = integer(line, "n")
        if n not in self.faults or self.faults[n]["healed"] is not None:
            raise Refused(f"fault {n} did not begin, or is healed twice")
        self.faults[n]["healed"] = wall


def percentile(values, p):
    if not values:
        return 0
    return sorted(values)[-(-len(values) * p // 100) - 1]


def judge(history):
    breach = {name: set() for name in LISTS}
    commands = history.commands
    keys = {}
    for op in sorted(commands):
        keys.setdefault(commands[op].key, []).append(commands[op])

    valid = repeated = 0
    known = set()
    for number, wall, key, op, name in history.events:
        command = commands.get(op)
        if command is None or command.key != key or command.do == "cancel" or command.place > number or command.refused():
            breach["invented"].add(number)
            continue
        valid += 1
        repeated += (op, name) in known
        known.add((op, name))
        command.seen.append((wall, name))

    both = 0
    for of_key in keys.values():
        fired = [c for c in of_key if c.seen]
        for command in fired:
            if any(wall < command.due for wall, _ in command.seen):
                breach["early"].add(command.number)
            if len({name for _, name in command.seen}) > 1:
                breach["doubled"].add(command.number)
            for later in of_key:
                since = later.in_force()
                if later.number > command.number and since is not None and since < command.due:
                    breach["canceled" if later.do == "cancel" else "superseded"].add(command.number)
        wrong = breach["superseded"] | breach["canceled"]
        right = [c for c in fired if c.number not in wrong]
        both += len(right) > 1
        taken = [c for c in of_key if c.taken()]
        if not taken or right:
            continue
        last = taken[-1]
        undone = any(c.do == "cancel" and c.doubtful() and c.number > last.number for c in of_key)
        if last.do != "cancel" and last.due < history.end and not undone:
            breach["lost"].add(last.number)

    lateness, stray = [], 0
    excluded = breach["early"] | breach["superseded"] | breach["canceled"]
    for command in commands.values():
        if not command.taken() or not command.seen or command.number in excluded:
            continue
        base, first = max(command.due, command.taken_from()), command.seen[0][0]
        late = max(0, first - base)
        lateness.append(late)
        if late <= LATE:
            continue
        of_fault = [f for f in history.faults.values() if f["from"] <= base + LATE]
        if of_fault:
            of_fault[-1]["last"] = max(first, of_fault[-1]["last"] or first)
        else:
            stray += 1
    clean = []
    for fault in history.faults.values():
        healed = history.end if fault["healed"] is None else fault["healed"]
        clean.append(0 if fault["last"] is None else max(0, fault["last"] - healed))

    verdict = {
        "void": history.greatest - history.least > CLOCK,
        "commands": len(commands),
        "taken": sum(c.taken() for c in commands.values()),
        "refused": sum(c.refused() for c in commands.values()),
        "doubtful": sum(c.doubtful() for c in commands.values()),
        "events": valid, "repeated": repeated, "both": both,
    }
    verdict.update((name, sorted(breach[name])) for name in LISTS)
    verdict.update(
        late_p50=percentile(lateness, 50), late_p99=percentile(lateness, 99), late_max=percentile(lateness, 100),
        faults=len(history.faults), stray=stray,
        clean_p50=percentile(clean, 50), clean_max=percentile(clean, 100))
    return verdict


def main():
    code = 0
    for path in sys.argv[1:]:
        try:
            verdict = judge(History(path))
        except (Refused, OSError) as error:
            print(f"judge.py: {path}: {error}", file=sys.stderr)
            return 2
        print(json.dumps(verdict))
        code = max(code, int(verdict["void"] or any(verdict[name] for name in LISTS)))
    return code


if __name__ == "__main__":
    sys.exit(main())
