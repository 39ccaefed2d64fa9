"""usage: test_policy_analysis.py SIJIL POLICY-FOLDER   `sijil policy lint`, `test` and `diff` with files: what they say, with lines, and how they end."""
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import jsonschema
import yaml

SIJIL, POLICY = os.path.abspath(sys.argv[1]), pathlib.Path(os.path.abspath(sys.argv[2]))
NAMES = ["org-floor", "health-ae", "difc-bank-models", "public-models"]


def example(name):
    return json.loads((POLICY / "examples" / f"{name}.json").read_text(encoding="utf-8"))


class Folder:
    def __init__(self, path):
        self.path = path
        catalogue = example("regions")
        self.samples = {"policies": [example(name) for name in NAMES], "regions": catalogue["regions"], "groups": catalogue["groups"]}

    def write(self, name, value):
        text = value if isinstance(value, str) else json.dumps(value, indent=2)
        pathlib.Path(self.path, name).write_text(text, encoding="utf-8")
        return text.splitlines()

    def sijil(self, *words, code=0):
        done = subprocess.run([SIJIL, "policy", *words], capture_output=True, text=True, cwd=self.path, timeout=120,
                              env={**os.environ, "HOME": self.path, "XDG_CONFIG_HOME": self.path})
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done

    def edited(self, name, edit):
        document = copy.deepcopy(self.samples)
        edit(document)
        return self.write(name, document)


def rule_of(document, policy, rule):
    return next(one for one in document["policies"][NAMES.index(policy)]["rules"] if one["id"] == rule)


def what_others_wrote_steers_no_terminal(folder):
    """The target of an exception is any text."""
    person = {"iss": "https://id.example", "sub": "a"}
    exception = {"apiVersion": "sijil.policy/v1", "kind": "ResidencyException", "id": "ex-1", "type": "any", "project": "00000000-0000-4000-8000-000000000000",
                 "policy": {"id": "health-ae", "version": 3, "digest": "sha256:" + "a" * 64}, "approvals": [{**person, "sub": "b"}, {**person, "sub": "c"}],
                 "requested_by": person, "digests": ["sha256:" + "b" * 64], "lifts": ["H-STORE-AE"], "ops": ["ingest"], "targets": ["x\x1b[2J\u202ey"], "evidence": {},
                 "not_before": "2026-11-01T00:00:00Z", "not_after": "2027-11-01T00:00:00Z"}
    folder.edited("steers.json", lambda new: new.update(exceptions=[exception]))
    done = folder.sijil("lint", "steers.json", code=1)
    assert "the exception is for x?[2J???y," in done.stdout and "\x1b" not in done.stdout, done.stdout


def what_loosens_is_named_with_its_line(folder):
    lines = folder.write("old.json", folder.samples)
    folder.edited("new.json", lambda new: rule_of(new, "health-ae", "H-STORE-AE")["target"]["geo_within"].append("SA"))
    done = folder.sijil("diff", "old.json", "new.json", code=1)
    assert "LOOSENS   newly-allowed: " in done.stdout and "H-STORE-AE of health-ae@3 (old.json:" in done.stdout, done.stdout
    line = int(done.stdout.split("H-STORE-AE of health-ae@3 (old.json:")[1].split(")")[0])
    assert any('"H-STORE-AE"' in text for text in lines[line - 1:line + 2]), (line, lines[line - 2:line + 2])
    assert "target geo=SA\n" in done.stdout and "loosen" in done.stderr, (done.stdout, done.stderr)
    found = json.loads(folder.sijil("diff", "--json", "old.json", "new.json", code=1).stdout)
    assert found["loosening"] and any(one["old"] == {"policy": "health-ae@3", "rule": "H-STORE-AE"} for one in found["differences"])
    back = folder.sijil("diff", "new.json", "old.json", code=1)
    assert "tightens  newly-denied: " in back.stdout and "LOOSENS" not in back.stdout and "none of them loosens" in back.stderr, back


def the_same_ends_with_0_whatever_its_form(folder):
    folder.write("old.json", folder.samples)
    folder.write("tabs.json", json.dumps(folder.samples, indent="\t"))
    assert folder.sijil("diff", "old.json", "tabs.json").stdout == "Both sets allow, deny and demand the same.\n"
    assert json.loads(folder.sijil("diff", "--json", "old.json", "tabs.json").stdout) == {"differences": [], "loosening": False}
    subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", f"{folder.path}/key.pem"], check=True)
    folder.sijil("sign", "--key", "key.pem", "--epoch", "9", "--output", "signed.dsse", "old.json")
    folder.sijil("diff", "signed.dsse", "old.json")


def a_file_that_is_no_set_ends_with_2(folder):
    folder.write("old.json", folder.samples)
    folder.write("odd.json", {"policies": [], "regions": {}, "region": {}})
    folder.write("none.json", "policies: []\n")
    assert 'no member "region"' in folder.sijil("diff", "old.json", "odd.json", code=2).stderr
    for command in (["diff", "old.json", "none.json"], ["lint", "none.json"], ["test", "none.json", "tests.yaml"]):
        folder.write("tests.yaml", "tests:\n  - {name: one, ops: [read], scope: a/b/c, target: {}, expect: deny}\n")
        assert "none.json" in folder.sijil(*command, code=2).stderr
    assert "missing.json" in folder.sijil("lint", "missing.json", code=3).stderr


def a_new_id_loosens_nothing(folder):
    def add(document):
        extra = copy.deepcopy(document["policies"][0])
        extra["metadata"].update(id="one-more", scope=["**"])
        extra.pop("labels", None)
        extra.pop("exception_types", None)
        extra.update(closed=False, rules=[{"id": "M-ONE", "effect": "require", "ops": ["ingest"], "target": {"geo_within": ["AE"]}}])
        document["policies"].append(extra)

    folder.write("old.json", folder.samples)
    folder.edited("new.json", add)
    assert "SYS-PIN-MISSING" in folder.sijil("diff", "old.json", "new.json", code=1).stdout
    done = folder.sijil("diff", "--new-id", "one-more", "old.json", "new.json", code=1)
    assert "LOOSENS" not in done.stdout and "M-ONE of one-more@" in done.stdout, done.stdout


def lint_names_rule_line_and_way_out(folder):
    def shadow(document):
        rules = document["policies"][1]["rules"]
        rules.append({**copy.deepcopy(rules[0]), "id": "H-AGAIN"})

    folder.write("good.json", folder.samples)
    plain = json.loads(folder.sijil("lint", "--json", "--days", "0", "good.json", code=ending(folder, "good.json")).stdout)
    assert not [one for one in plain if one["level"] == "error"], plain
    assert "not-permitted" in [one["code"] for one in plain if one["about"] == "organisation/project/name"], plain
    lines = folder.edited("set.json", shadow)
    found = json.loads(folder.sijil("lint", "--json", "set.json", code=1).stdout)
    again = next(one for one in found if one["rule"] == "H-AGAIN" or one["rule"] == "H-STORE-AE")
    assert again["code"] == "shadowed" and again["policy"] == "health-ae@3" and again["try"], again
    assert any('"%s"' % again["rule"] in text for text in lines[again["line"] - 1:again["line"] + 2]), again
    text = folder.sijil("lint", "set.json", code=1)
    assert f"set.json:{again['line']}: warning: health-ae@3 {again['rule']}: " in text.stdout and "[shadowed]" in text.stdout, text.stdout
    assert "warnings" in text.stderr


def ending(folder, name):
    return subprocess.run([SIJIL, "policy", "lint", "--days", "0", name], cwd=folder.path, capture_output=True, check=False).returncode


def the_example_of_expectations_holds(folder):
    folder.write("set.json", folder.samples)
    path = POLICY / "examples" / "samples.tests.yaml"
    schema = json.loads((POLICY / "schema" / "policy-tests.schema.json").read_text(encoding="utf-8"))
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(document)
    done = folder.sijil("test", "set.json", str(path))
    count = sum(len(one["ops"]) for one in document["tests"])
    assert done.stdout == f"{count} of {count} expectations hold\n", done.stdout
    folder.write("tests.json", document)
    rows = json.loads(folder.sijil("test", "--json", "set.json", "tests.json").stdout)
    assert len(rows) == count and all(one["holds"] and one["line"] > 0 for one in rows), rows


def what_does_not_hold_is_said_with_its_line(folder):
    folder.write("set.json", folder.samples)
    folder.write("tests.yaml", 'now: "2026-12-15T00:00:00Z"\ntests:\n'
                 "  - {name: stays, ops: [ingest], scope: health/a/b, target: {geo: SA}, expect: deny, rule: H-STORE-AE}\n"
                 "  - {name: leaves, ops: [ingest], scope: health/a/b, target: {geo: SA}, expect: allow}\n"
                 "  - {name: by another, ops: [ingest], scope: health/a/b, target: {geo: SA}, expect: deny, rule: H-NONE}\n")
    done = folder.sijil("test", "set.json", "tests.yaml", code=1)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("tests.yaml:4: leaves: ingest: denied by ") and lines[0].endswith("expected: allow"), lines
    assert lines[1].startswith("tests.yaml:5: by another: ingest: denied by ") and lines[1].endswith("expected: deny by H-NONE"), lines
    assert lines[2] == "1 of 3 expectations hold" and "2 of 3" in done.stderr, done


def a_wrong_expectation_ends_with_2(folder):
    folder.write("set.json", folder.samples)
    for test, message in (("{name: one, ops: [read], scope: a/b/c, target: {}, expect: maybe}", "tests.yaml:2: "),
                          ("{name: one, ops: [peek], scope: a/b/c, target: {}, expect: deny}", "an operation expected"),
                          ("{name: one, ops: [read], scope: a/b/c, region: azure/none, expect: deny}", "tests.yaml:2: region: the set has no region"),
                          ("{name: one, ops: [read], scope: a/b/c, region: azure/uaenorth, rules: x, expect: deny}", "not known: rules")):
        folder.write("tests.yaml", f"tests:\n  - {test}\n")
        assert message in folder.sijil("test", "set.json", "tests.yaml", code=2).stderr, message


for check in (what_others_wrote_steers_no_terminal, what_loosens_is_named_with_its_line, the_same_ends_with_0_whatever_its_form, a_file_that_is_no_set_ends_with_2,
              a_new_id_loosens_nothing, lint_names_rule_line_and_way_out, the_example_of_expectations_holds,
              what_does_not_hold_is_said_with_its_line, a_wrong_expectation_ends_with_2):
    with tempfile.TemporaryDirectory() as path:
        check(Folder(path))
        print("ok", check.__name__)
