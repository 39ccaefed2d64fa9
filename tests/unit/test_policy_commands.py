"""usage: test_policy_commands.py SIJIL VERIFY   `sijil policy init` on a terminal and in scripts, `sijil policy show FILE`, and what both refuse; no registry."""
import json
import os
import pty
import re
import subprocess
import sys
import tempfile

SIJIL, VERIFY = (os.path.abspath(path) for path in sys.argv[1:3])
ANSWERS = ["adgm", "clinic/imaging", "onprem/adgm-1=AE/AZ,ADGM", "10.1.0.0/16, 10.2.0.0/16", "amal, badr"]


class World:
    def __init__(self, folder):
        self.folder = folder
        self.environment = {**os.environ, "HOME": folder, "XDG_CONFIG_HOME": folder, "XDG_CACHE_HOME": folder, "COLUMNS": "80"}

    def sijil(self, *words, code=0, program=SIJIL):
        done = subprocess.run([program, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=self.folder, env=self.environment,
                              timeout=60, check=False)
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return json.load(file)

    def write(self, name, value):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            json.dump(value, file)

    def typed(self, answers, *words):
        """What a terminal shows while a person types these answers, and the exit status."""
        main, side = pty.openpty()
        process = subprocess.Popen([SIJIL, "policy", "init", *words], stdin=side, stdout=side, stderr=side, env=self.environment, cwd=self.folder)
        os.close(side)
        os.write(main, "".join(answer + "\n" for answer in answers).encode())
        shown = b""
        try:
            while piece := os.read(main, 4096):
                shown += piece
        except OSError:  # the other end is closed
            pass
        os.close(main)
        return shown.decode().replace("\r\n", "\n"), process.wait(60)


def five_answers_make_a_set(world):
    shown, code = world.typed(ANSWERS, "-o", "typed.json")
    assert code == 0, shown
    assert [int(number) for number in re.findall(r"(\d) of 5: ", shown)] == [1, 2, 3, 4, 5], shown
    assert "clinic/imaging/** may be stored in onprem/adgm-1, and in no other region" in shown
    assert "Its names and its log may be in onprem/adgm-1." in shown and "sijil region add HOST onprem/adgm-1 --change\n" in shown, shown
    assert shown.count("may read it, if a role lets them") == 2 and "Not verified" in shown and "Nothing is in force yet" in shown
    made = world.read("typed.json")
    policy = made["policies"][0]
    assert made["epoch"] == 1 and policy["metadata"]["id"] == "adgm-dpr-clinic.imaging" and policy["metadata"]["scope"] == ["clinic/imaging/**"]
    assert made["regions"]["onprem/adgm-1"]["regimes"] == ["ADGM"] and [each["cidr"] for each in made["networks"]] == ["10.1.0.0/16", "10.2.0.0/16"]
    assert policy["exception_types"]["adgm-safeguards"]["adds"]["notify"] == ["amal", "badr"]


def options_make_the_same_set(world):
    world.sijil("policy", "init", "--regime", "adgm", "--organisation", "clinic/imaging", "--region", "onprem/adgm-1=AE/AZ,ADGM", "--network",
                "10.1.0.0/16", "--network", "10.2.0.0/16", "--officer", "amal", "--officer", "badr", "-o", "flags.json")
    assert world.read("flags.json") == world.read("typed.json")


def only_what_is_missing_is_asked(world):
    shown, code = world.typed(["", ""], "--regime", "public", "--organisation", "open", "--region", "a/b=AE", "-o", "open.json")
    assert code == 0 and "of 5" not in shown, shown  # the rest has defaults
    shown, code = world.typed(["pdpl", "", ""], "--organisation", "bank", "--region", "a/b=AE", "-o", "bank.json")
    assert code == 0 and re.findall(r"(\d) of 5: ", shown) == ["1", "4", "5"], shown
    assert world.read("bank.json")["networks"] == []


def a_wrong_answer_is_asked_again(world):
    shown, code = world.typed(["gdpr", "health", "Clinic", "clinic", "a/b=AE", "", ""], "-o", "again.json")
    assert code == 0 and "there is no template for 'gdpr'" in shown and "'Clinic' is no organisation" in shown, shown
    assert world.read("again.json")["policies"][0]["metadata"]["id"] == "ae-health-clinic"
    shown, code = world.typed(["x", "y", "z"], "-o", "never.json")
    assert code != 0 and shown.count("1 of 5") == 3 and not os.path.exists(os.path.join(world.folder, "never.json")), shown
    shown, code = world.typed(["adgm", "clinic", "a/b=AE/XX", "", ""], "-o", "never.json")
    assert code != 0 and "no place of ISO 3166: AE/XX" in shown and not os.path.exists(os.path.join(world.folder, "never.json")), shown


def scripts_need_the_options(world):
    refused = world.sijil("policy", "init", "--regime", "adgm", code=2)
    assert "--regime, --organisation and --region are needed" in refused.stderr and refused.stdout == ""
    made = world.sijil("policy", "init", "--json", "--regime", "adgm", "--organisation", "clinic", "--region", "a/b=AE/AZ,ADGM")
    assert json.loads(made.stdout)["kind"] == "PolicySet" and made.stderr == ""


def a_file_is_shown_as_a_person_reads_it(world):
    shown = world.sijil("policy", "show", "typed.json").stdout
    for words in ("NOT SIGNED: a draft.", "clinic/imaging/**", "[A-TRANSFER]", "  onprem/adgm-1: AE/AZ", "  10.1.0.0/16: AE/AZ, assurance 2"):
        assert words in shown, (words, shown)
    assert max(len(line) for line in shown.splitlines()) <= 80
    whole = json.loads(world.sijil("policy", "show", "--document", "typed.json").stdout)
    assert whole == world.read("typed.json")
    assert json.loads(world.sijil("policy", "show", "--json", "typed.json").stdout)["policies"][0]["id"] == "adgm-dpr-clinic.imaging"
    world.write("short.json", {"policies": [], "regions": {}})  # as 'policy sign' takes it
    assert "What no policy above permits is denied" in world.sijil("policy", "show", "short.json").stdout


def keys(world, name):
    private, public = (os.path.join(world.folder, name + end) for end in (".pem", ".pub"))
    subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", private], check=True, capture_output=True)
    subprocess.run(["openssl", "ec", "-in", private, "-pubout", "-out", public], check=True, capture_output=True)


def a_signature_is_checked_with_the_pinned_key(world):
    for name in ("root", "other"):
        keys(world, name)
    world.sijil("policy", "sign", "--key", "root.pem", "--epoch", "9", "-o", "set.dsse", "typed.json")
    assert "Not checked here" in " ".join(world.sijil("policy", "show", "set.dsse").stdout.split())
    checked = world.sijil("policy", "show", "--root", "root.pub", "set.dsse").stdout
    assert "epoch 9" in checked and "Signatures: 1." in checked and re.search(r"Checked\s+with\s+the\s+root's\s+key", checked), checked
    world.sijil("policy", "show", "--root", "other.pub", "set.dsse", code=4)
    assert "is not signed" in world.sijil("policy", "show", "--root", "root.pub", "typed.json", code=4).stderr


def unknown_words_are_not_signed(world):
    for facts, said in (({"geo": "AE/XX"}, "regions a/b: geo: AE/XX"), ({"geo": "AE", "regimes": ["ADGN"]}, "regions a/b: regimes: ADGN")):
        world.write("odd.json", {"policies": [], "regions": {"a/b": facts}})
        refused = world.sijil("policy", "sign", "--key", "root.pem", "--epoch", "9", "-o", "odd.dsse", "odd.json", code=1)
        assert said in refused.stderr and not os.path.exists(os.path.join(world.folder, "odd.dsse")), refused.stderr
        assert "a/b: AE" in world.sijil("policy", "show", "odd.json").stdout  # reading does not check


def what_is_no_set_is_refused(world):
    assert "nowhere.json" in world.sijil("policy", "show", "nowhere.json", code=3).stderr
    world.write("odd.json", {"policies": [], "regions": {}, "polices": []})
    assert 'no member "polices"' in world.sijil("policy", "show", "odd.json", code=1).stderr
    world.write("odd.json", {"payloadType": "x", "payload": "", "signatures": []})
    world.sijil("policy", "show", "odd.json", code=1)


def the_verifier_needs_its_own_keys(world):
    for words, said in ((("set.dsse",), "--key, --root and the file"), (("--key", "x", "--root", "root.pub", "--entry", "x", "set.dsse"), "no --entry")):
        assert said in world.sijil("policy", *words, program=VERIFY, code=2).stderr
    wrong = world.sijil("policy", "--key", "no key", "--root", "root.pub", "set.dsse", program=VERIFY, code=2)
    assert "sijil-verify: " in wrong.stderr
    assert "--root is for" in world.sijil("proof", "--root", "root.pub", "x", program=VERIFY, code=2).stderr


def main():
    with tempfile.TemporaryDirectory(prefix="sijil-") as folder:
        world = World(folder)
        for check in (five_answers_make_a_set, options_make_the_same_set, only_what_is_missing_is_asked, a_wrong_answer_is_asked_again,
                      scripts_need_the_options, a_file_is_shown_as_a_person_reads_it, a_signature_is_checked_with_the_pinned_key,
                      unknown_words_are_not_signed, what_is_no_set_is_refused, the_verifier_needs_its_own_keys):
            check(world)
            print("ok", check.__name__, flush=True)


if __name__ == "__main__":
    main()
