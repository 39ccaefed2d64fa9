#!/usr/bin/env python3
"""usage: monitoring.py SOURCE-FOLDER [--write]   Compares rules, dashboard and page of monitoring/ with the metrics.

If a rule or a panel names a metric, a label or a label's value that no gateway has, it never fires or shows anything; promtool
does not find that. --write makes the page's table anew."""
import json
import os
import re
import sys

import yaml

DEFINITIONS = ("gateway/http/metrics.def", "gateway/pipeline/metrics.def", "audit/metrics.def", "delivery/metrics.def", "detection/metrics.def",
               "policy/decider/metrics.def", "registry/metrics.def", "registry/region_metrics.def")
IN_SOURCES = ("gateway/durations.c", "crypto/metrics.c")  # rows that are made from other tables
ROW = re.compile(r'^(?:X|COUNTED)\((\w+),\s*"(\w+)",\s*((?:"(?:[^"\\]|\\.)*"|SIJIL_\w+|\s)+),\s*METRIC_(\w+),\s*"((?:[^"\\]|\\.)*)"\)', re.M)
MADE = re.compile(r'\.name = "(\w+)",[\s\\]*\.help = "([^"]*)",[\s\\]*\.labels = "(\w+)=\\"" ?#?\w+ ?"\\"",[\s\\]*\.kind = METRIC_(\w+)')
OTHERS = {"up": {}, "ALERTS": {"alertname": None, "alertstate": None}}  # Prometheus' own
TARGET = {"job", "instance"}  # labels that Prometheus adds
MARK = "<!-- made by tests/lint/monitoring.py --write -->\n"
WORDS = set("""abs and avg bool by changes count delta for group_left group_right histogram_quantile ignoring increase irate label_values
    max min offset on or predict_linear rate sum time topk unless without""".split())
problems = []


def complain(text):
    problems.append(text)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Metric:
    def __init__(self, kind, text):
        self.kind = kind.removesuffix("_SECONDS").lower()
        self.help, self.labels = text.rstrip("."), {}  # each label with its values; None: any


def metrics_of_definitions():
    found = {}
    for path in DEFINITIONS:
        rows = ROW.findall(read(path))
        count = len(re.findall(r"^(?:X|COUNTED)\(", read(path), re.M))
        if len(rows) != count:
            complain(f"{path}: {count} rows, of which {len(rows)} can be read here")
        for _, name, labels, kind, text in rows:
            metric = found.setdefault(name, Metric(kind, text))
            plain = "".join(part for part in re.findall(r'"((?:[^"\\]|\\.)*)"|(SIJIL_\w+)', labels) for part in part).replace('\\"', '"')
            for label, value in re.findall(r'(\w+)="(\w*)"', plain):
                if value.startswith("SIJIL_"):
                    metric.labels[label] = None
                else:
                    metric.labels.setdefault(label, set()).add(value)
            if re.fullmatch(r"\w+", plain):
                metric.labels[plain] = None  # of configured things
            if metric.kind != Metric(kind, "").kind:
                complain(f"{path}: {name} is of two kinds")
    return found


def metrics_of_sources():
    found = {}
    for path in IN_SOURCES:
        text = read(path)
        made = MADE.findall(text)
        if len(made) != text.count('.name = "'):
            complain(f"{path}: {text.count('.name = ' + chr(34))} metrics, of which {len(made)} can be read here")
        for name, what, label, kind in made:
            found[name] = Metric(kind, what)
            found[name].labels[label] = None
    return found


def check_names(metrics):
    for name, metric in metrics.items():
        if not re.fullmatch(r"(sijil|process)_[a-z_]+", name):
            complain(f"{name}: not a name of ours")
        if (metric.kind == "counter") != name.endswith("_total"):
            complain(f"{name} is a {metric.kind}: counters, and they alone, end in _total")


def resolve(name, metrics):
    if name in metrics:
        return metrics[name], {}
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    if base in metrics and metrics[base].kind == "histogram":
        return metrics[base], {"le": None} if name.endswith("_bucket") else {}
    return None, {}


def check_matchers(where, name, labels, matchers):
    for label, operator, value in re.findall(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"', matchers):
        if label in TARGET:
            continue
        if label not in labels:
            complain(f"{where}: {name} has no label {label}")
        elif labels[label] is not None:
            for each in value.split("|") if "~" in operator else [value]:
                if each not in labels[label] and not re.search(r"[.*$]", each):
                    complain(f"{where}: {name} has no {label}={each}")


def check_expression(where, expression, metrics):
    """Names, labels and values of an expression, which promtool parses in script/interop monitoring."""
    used = set()
    known = set(TARGET)
    for name, matchers in re.findall(r"\b([a-zA-Z_]\w*)\b(?:\s*\{([^}]*)\})?", re.sub(r'(\{[^}]*\})|"[^"]*"', lambda match: match[1] or "", expression)):
        if name in OTHERS:
            used.add(name)
        elif re.match(r"sijil_|process_", name):
            metric, more = resolve(name, metrics)
            if metric is None:
                complain(f"{where}: there is no metric {name}")
                continue
            used.add(name)
            labels = {**metric.labels, **more}
            known |= set(labels)
            check_matchers(where, name, labels, matchers)
    for names in re.findall(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)", expression):
        for label in names.replace(" ", "").split(","):
            if label not in known:
                complain(f"{where}: no metric of it has the label {label}")
    if not used:
        complain(f"{where}: it asks for no metric")
    if expression.count("(") != expression.count(")") or expression.count("{") != expression.count("}"):
        complain(f"{where}: brackets do not fit")
    return used


def rules():
    document = yaml.safe_load(read("monitoring/alerts.yml"))
    return [rule for group in document["groups"] for rule in group["rules"]]


def check_rules(metrics):
    page = read("docs/monitoring.md")
    sections = re.findall(r"^### (\w+)\n(.*?)(?=^##)", page + "\n## end\n", re.M | re.S)
    said = {name: text.strip() for name, text in sections}
    for rule in rules():
        name = rule["alert"]
        check_expression(name, rule["expr"], metrics)
        if rule["labels"].get("severity") not in ("critical", "warning"):
            complain(f"{name}: severity is critical or warning")
        notes = rule["annotations"]
        if sorted(notes) != ["description", "runbook_url", "summary"] or not all(notes.values()):
            complain(f"{name}: it needs a summary, a description and a runbook_url")
        elif notes["runbook_url"] != f"docs/monitoring.md#{name.lower()}":
            complain(f"{name}: its runbook is docs/monitoring.md#{name.lower()}")
        if len(said.get(name, "")) < 40:
            complain(f"{name}: docs/monitoring.md does not say what to do")
    names = [rule["alert"] for rule in rules()]
    for name in set(said) - set(names):
        complain(f"docs/monitoring.md: there is no alert {name}")
    if len(set(names)) != len(names):
        complain("monitoring/alerts.yml: two alerts have one name")
    for anchor in re.findall(r"\]\(#(\w+)\)", page):
        if anchor not in {name.lower() for name in names}:
            complain(f"docs/monitoring.md: there is no section #{anchor}")


def check_tests(metrics):
    """Each rule has a test in which it fires."""
    document = yaml.safe_load(read("monitoring/alerts_test.yml"))
    fired = set()
    for test in document["tests"]:
        for series in test["input_series"]:
            check_expression(f"alerts_test.yml, {test['name']}", re.sub(r'\b(le|version|commit)="[^"]*",?', "", series["series"]), metrics)
        for asked in test["promql_expr_test"]:
            for sample in asked.get("exp_samples", []):
                fired |= set(re.findall(r'alertname="(\w+)"', sample["labels"]))
    for rule in rules():
        if rule["alert"] not in fired:
            complain(f"alerts_test.yml: {rule['alert']} never fires")


def check_dashboard(metrics):
    board = json.loads(read("monitoring/dashboard.json"))
    variables = {"$" + each["name"] for each in board["templating"]["list"]} | {"${datasource}", "$__rate_interval"}
    numbers, places, shown = set(), set(), set()
    for panel in board["panels"]:
        where = f"dashboard.json, {panel['title']}"
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        if panel["id"] in numbers or places & cells or place["x"] + place["w"] > 24:
            complain(f"{where}: its number or its place is another panel's")
        numbers.add(panel["id"])
        places |= cells
        for target in panel.get("targets", []):
            shown |= check_expression(where, target["expr"], metrics)
        if panel["type"] != "row" and not panel.get("targets"):
            complain(f"{where}: it shows nothing")
    for name in set(re.findall(r"\$\{?\w+\}?", json.dumps(board))) - variables - {"$__all"}:
        complain(f"dashboard.json: there is no variable {name}")
    for name in ("sijil_ready", "sijil_audit_forked", "sijil_region_free_bytes", "sijil_keyd_tokens_unexplained", "sijil_answers_total"):
        if name not in shown:
            complain(f"dashboard.json: {name} is not shown")


def table_of(metrics):
    lines = ["| metric | kind | labels | what it tells |", "|---|---|---|---|"]
    for name in sorted(metrics):
        metric = metrics[name]
        labels = ", ".join(f"`{label}`" + ("" if values is None else ": " + ", ".join(sorted(value for value in values if value)))
                           for label, values in sorted(metric.labels.items())).replace(": ,", ",").removesuffix(": ")
        lines.append(f"| `{name}` | {metric.kind} | {labels} | {metric.help} |")
    return "\n".join(lines) + "\n"


def check_page(metrics, write):
    page = read("docs/monitoring.md")
    head, mark, table = page.partition(MARK)
    if not mark:
        complain("docs/monitoring.md: where the table begins is not marked")
    elif write:
        with open("docs/monitoring.md", "w", encoding="utf-8") as file:
            file.write(head + mark + table_of(metrics))
    elif table != table_of(metrics):
        complain("docs/monitoring.md: the table is not that of the metrics: python3 tests/lint/monitoring.py . --write")


def main():
    os.chdir(sys.argv[1])
    metrics = metrics_of_definitions() | metrics_of_sources()
    if len(metrics) < 60:
        complain(f"only {len(metrics)} metrics were found")
    check_names(metrics)
    check_rules(metrics)
    check_tests(metrics)
    check_dashboard(metrics)
    check_page(metrics, "--write" in sys.argv[2:])
    for problem in problems:
        print("  " + problem)
    return 1 if problems else 0


sys.exit(main())
