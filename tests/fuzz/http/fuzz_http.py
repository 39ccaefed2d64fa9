#!/usr/bin/env python3
"""Whole HTTP requests over TLS against a live gateway: docs/fuzzing.md, "The gateway as a whole"."""
import argparse
import concurrent.futures
import hashlib
import http.client
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import grammar  # noqa: E402
import wire  # noqa: E402
from coverage import EDGES  # noqa: E402
from judge import Books, Finding, judge  # noqa: E402
from world import SANITIZERS, World, program  # noqa: E402

CORPUS = os.path.join(HERE, "..", "corpus", "http")
ANSWER_SECONDS = 15    # for a complete request
LEFTOVER_SECONDS = 0.05 # for a request that may or may not be answered
UPLOADS_EVERY = 20     # cases
BOOKS_EVERY = 200      # cases
PAUSE_SECONDS = 5      # a case that took longer runs again: the machine was stopped, or too busy
KEPT_FILES, KEPT_BYTES = 100, 200 * 1024 # in the repository, as for the other targets
BROKEN_LINES = {"silence", "unanswered", "malformed", "stuck"} # findings that a pause of this process can cause


class Runner:
    def __init__(self, world):
        self.world, self.books = world, Books(world)
        self.executed, self.answers, self.statuses = 0, 0, {}

    # --- one case -------------------------------------------------------------------------------------------------
    def read_answer(self, link, one, sent, clean):
        is_head = sent.startswith(b"HEAD ")
        answer = link.answer(is_head, ANSWER_SECONDS if clean else LEFTOVER_SECONDS)
        self.answers += 1
        self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
        self.books.enter(one, answer, sent)
        judge(self.world, one, answer, sent, clean)
        self.world.learn(answer)
        return answer

    def collect(self, link, waiting):
        """Collects the answers to all sent requests. Returns an empty list, or None if the connection can't be used any more."""
        while waiting:
            one, sent, clean = waiting[0]
            try:
                answer = self.read_answer(link, one, sent, clean)
            except wire.Ended:
                if clean and not link.was_closing:
                    raise Finding("unanswered", f"the connection ended instead of an answer to {sent[:300]!r}") from None
                return None
            except wire.Silence:
                if clean:
                    raise Finding("silence", f"no answer in {ANSWER_SECONDS} s to {sent[:300]!r}") from None
                return None
            except wire.Malformed as wrong:
                if clean or link.received:
                    raise Finding("malformed", f"{wrong} after {sent[:300]!r}") from None
                return None
            waiting.pop(0)
            if (answer["connection"] or "").lower() == "close":
                if clean:
                    self.expect_nothing_more(link)
                return None  # RFC 9112 section 9.6; libmicrohttpd may repeat itself here (docs/http.md)
        return waiting

    def run_stream(self, stream):
        link = wire.Link(self.world.server.port, self.world.context, ANSWER_SECONDS)
        link.was_closing, waiting, all_clean = False, [], True
        try:
            for one in stream["requests"]:
                self.world.unique += 1
                sent = grammar.render(one, self.world.resolve)
                all_clean = all_clean and grammar.is_clean(one)  # after a request that is not clean, nothing is certain
                waiting.append((one, sent, all_clean))
                if not link.send(sent, stream["splits"]):
                    link.was_closing = True
                if one["wait"] and stream["end"] == "wait" and (waiting := self.collect(link, waiting)) is None:
                    return
            if stream["end"] == "wait" and (waiting := self.collect(link, waiting)) is not None and all_clean:
                self.expect_nothing_more(link)
        finally:
            link.finish(stream["end"])

    @staticmethod
    def expect_nothing_more(link):
        try:
            link.read_more(time.monotonic() + 0.005)
        except wire.Silence:
            pass
        if link.received:
            raise Finding("malformed", f"more answers than requests: {link.received[:300]!r}")

    def run(self, case):
        """Raises Finding."""
        if case.get("together") and len(case["streams"]) > 1:
            with concurrent.futures.ThreadPoolExecutor(len(case["streams"])) as pool:
                for done in [pool.submit(self.run_stream, stream) for stream in case["streams"]]:
                    done.result()
        else:
            for stream in case["streams"]:
                self.run_stream(stream)
        self.executed += 1
        complaint = self.world.complaint()
        if complaint is not None:
            raise Finding("crash", complaint)

    def patiently(self, action, *arguments):
        """Runs the case, and again if this process or the machine paused meanwhile, because the server rightly cuts slow connections. A
        sanitizer's report or a wrong answer is never excused."""
        for attempt in range(3):
            began = time.monotonic()
            try:
                return action(*arguments)
            except (Finding, OSError, http.client.HTTPException) as wrong:
                complaint = self.world.complaint()
                if complaint is not None:
                    raise Finding("crash", complaint) from None
                stood_still = time.monotonic() - began > PAUSE_SECONDS
                excusable = not isinstance(wrong, Finding) or wrong.kind in BROKEN_LINES
                if attempt == 2 or not (excusable and stood_still):
                    raise wrong if isinstance(wrong, Finding) else Finding("connect", repr(wrong)) from None
        return None

    def plain_request(self):
        answer = self.world.kept.call("GET", "blobs/" + self.world.kept_digest, scope="repository:kept/kept/golden:pull")
        if answer.status != 200:
            raise Finding("health", f"a plain request got {answer.status}: {answer.body[:200]!r}")
        self.books.audited.add(int(answer["Sijil-Audit"].rsplit("/", 1)[1]))


# --- the whole run ----------------------------------------------------------------------------------------------------
def verify_log(world, runner):
    """Some events of the run, checked offline as an auditor would: key, entry and proof go through sijil-verify."""
    auditor = world.clients["auditor"]
    key, newest = auditor.api("GET", "/audit/key")["vkey"], world.events() - 1
    for sequence in sorted({0, newest // 3, newest // 2, newest}):
        with tempfile.TemporaryDirectory() as folder:
            for what in ("entry", "proof"):
                answer = auditor.call("GET", f"/api/v1/audit/events/{sequence}/{what}", scope="registry:admin:*")
                if answer.status != 200:
                    raise Finding("audit", f"no {what} of event {sequence}: {answer.status}")
                with open(os.path.join(folder, what), "wb") as file:
                    file.write(answer.body)
            done = subprocess.run([program("sijil-verify"), "proof", f"--key={key}", f"--entry={folder}/entry", f"{folder}/proof"],
                                  capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise Finding("audit", f"event {sequence} does not verify: {done.stderr}")
    print(f"http: {newest + 1} events in the log, {runner.answers} answers; the log verifies", flush=True)


def save(options, case, finding, seed):
    text = json.dumps({"finding": str(finding)[:2000], "seed": seed, **case}, indent=1)
    os.makedirs(options.findings, exist_ok=True)
    path = os.path.join(options.findings, f"{finding.kind}-{hashlib.sha256(json.dumps(case).encode()).hexdigest()[:16]}.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text + "\n")
    print(f"http: FOUND {finding}\nhttp: to see it again: tests/fuzz/http/fuzz_http.py --replay {path}", flush=True)


def load(paths):
    cases = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            cases.append((path, json.load(file)))
    return cases


def choose(chance, corpus):
    if corpus and chance.random() < 0.65:
        return grammar.damage(chance, corpus[int(len(corpus) * chance.random() ** 0.5)], corpus)
    made = grammar.case(chance)
    return grammar.damage(chance, made, corpus) if chance.random() < 0.3 else made


def keep(options, corpus, case):
    corpus.append(case)
    if options.corpus:
        name = hashlib.sha256(json.dumps(case).encode()).hexdigest()[:16] + ".json"
        with open(os.path.join(options.corpus, name), "w", encoding="utf-8") as file:
            json.dump(case, file)


def fuzz(options, world, runner):
    chance = random.Random(options.seed)
    corpus = [case for _, case in load(stored_cases(options.corpus))] if options.corpus else []
    until, shown = time.monotonic() + options.seconds, time.monotonic()
    begun, case = time.monotonic(), {"streams": []}
    first = list(corpus)
    counters = None if options.blind else world.counters
    try:
        while time.monotonic() < until and (options.cases == 0 or runner.executed < options.cases):
            case = first.pop() if first else choose(chance, corpus)
            if counters:
                counters.clear()
            runner.patiently(runner.run, case)
            if counters and counters.new() and case not in corpus:
                keep(options, corpus, case)
            if runner.executed % 25 == 0:
                runner.patiently(runner.plain_request)
            if runner.executed % UPLOADS_EVERY == 0:
                runner.patiently(world.end_uploads)
            if runner.executed % BOOKS_EVERY == 0:
                runner.patiently(runner.books.close)
            if time.monotonic() - shown > 60:
                shown = time.monotonic()
                show(options, runner, counters, corpus, begun)
        runner.patiently(runner.books.close)
        runner.books.check_bursts()
        runner.patiently(verify_log, world, runner)
    except Finding as finding:
        save(options, case, finding, options.seed)
        return False
    finally:
        show(options, runner, counters, corpus, begun)
    return True


def distill(options, world, runner):
    """The smallest cases that together reach each edge once, as far as the corpus in the repository has room."""
    paths = sorted(stored_cases(options.corpus), key=os.path.getsize)
    count, size = 0, 0
    os.makedirs(options.distill, exist_ok=True)
    for path, case in load(paths):
        world.counters.clear()
        runner.patiently(runner.run, case)
        if runner.executed % UPLOADS_EVERY == 0:
            runner.patiently(world.end_uploads)
        length = os.path.getsize(path)
        if not world.counters.new(EDGES) or count == KEPT_FILES or size + length > KEPT_BYTES:
            continue
        shutil.copy(path, options.distill)
        count, size = count + 1, size + length
    print(f"http: of {len(paths)} cases {count} with {size} bytes reach what is new to {options.distill}", flush=True)
    return True


def show(options, runner, counters, corpus, begun):
    edges = counters.edges() if counters else 0
    statuses = " ".join(f"{status}:{count}" for status, count in sorted(runner.statuses.items()))
    print(f"http: {runner.executed} cases  {runner.answers} answers  {edges} edges  {len(corpus)} kept  "
          f"{time.monotonic() - begun:.0f} s  seed {options.seed}  ({statuses})", flush=True)


def stored_cases(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".json"))


def replay(options, runner, cases):
    good = True
    for path, case in cases:
        try:
            runner.patiently(runner.run, {key: case[key] for key in ("together", "streams") if key in case})
            print(f"ok   {os.path.basename(path)}", flush=True)
        except Finding as finding:
            print(f"FAIL {os.path.basename(path)}: {finding}", flush=True)
            good = False
    return good


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long (default 600)")
    parser.add_argument("--cases", type=int, default=0, help="at most this many cases")
    parser.add_argument("--seed", type=int, default=None, help="the same seed makes the same cases, with --blind")
    parser.add_argument("--blind", action="store_true", help="without coverage: what comes next does not depend on timing")
    parser.add_argument("--corpus", help="folder of cases that reached new code; grows")
    parser.add_argument("--distill", metavar="FOLDER", help="copy the corpus's smallest cases that reach all its edges, and end")
    parser.add_argument("--findings", default="build/fuzz/findings/http", help="folder for what was found")
    parser.add_argument("--replay", nargs="+", metavar="FILE", help="run these cases once, then end unless --seconds is given too")
    options = parser.parse_args()
    if options.replay and "--seconds" not in " ".join(sys.argv):
        options.seconds = 0
    if options.seed is None:
        options.seed = int.from_bytes(os.urandom(4), "big")
    return options


def ends_well(world):
    """The sanitizer reports leaks at the end."""
    code = world.server.stop()
    with open(world.server.log.name, "rb") as log:
        match = SANITIZERS.search(log.read())
    if code != 0 or match:
        print(f"http: FOUND at the end: sijild ended with {code}, {match[0].decode() if match else 'no complaint'}", flush=True)
    return code == 0 and match is None


def main():
    options = arguments()
    if options.corpus:
        os.makedirs(options.corpus, exist_ok=True)
    world, good = World(), False
    try:
        runner = Runner(world)
        if options.distill:
            good = distill(options, world, runner)
        else:
            kept = stored_cases(os.path.join(HERE, "regressions")) + stored_cases(CORPUS)
            good = replay(options, runner, load((options.replay or []) + kept))
            if options.seconds > 0:
                good = fuzz(options, world, runner) and good
    except Exception:  # the fuzzer itself is wrong, so the run fails
        traceback.print_exc()
        good = False
    finally:
        good = ends_well(world) and good
        world.server.finish(not good)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
