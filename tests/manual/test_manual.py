"""What --help says stands in the man page and in both completions, and the pages and completions are well formed."""
import functools
import os
import re
import subprocess
import sys

BUILD = os.path.abspath(sys.argv[1])
MADE = os.path.join(BUILD, "cmd", "manual")
SECTIONS = {"sijil": 1, "sijil-verify": 1, "sijil-runner": 1, "sijild": 8, "sijil-keyd": 8, "sijil-witness": 8, "sijil-audit-dump": 8}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


def run(*command, check=True, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, **more)
    assert not check or done.returncode == 0, (command, done.returncode, done.stderr)
    return done


@functools.cache  # it is asked again for each option: more than a thousand times
def help_of(program, *words):
    return run(os.path.join(BUILD, "cmd", program), *words, "--help").stdout


def options_of(help_text, indent=6):
    """The options that a line of --help begins with: what stands in a sentence is no option of this program."""
    found = set()
    for line in help_text.splitlines():
        match = re.match(rf"\s{{2,{indent}}}(?:-\w, )?(--[a-z][a-z0-9-]*)", line)
        if match:
            found.add(match.group(1))
    return found


def commands():
    """The commands that `sijil --help` lists."""
    lines = help_of("sijil").splitlines()
    return [re.match(r"  (\S+(?: \S+)*)(?:  |$)", line.rstrip()).group(1) for line in lines if re.match(r"  [a-z]", line)]


def read(kind, name):
    with open(os.path.join(MADE, kind, name), encoding="ascii") as file:
        return file.read()


def page_name(program):
    return f"{program}.{SECTIONS.get(program, 5)}"


def page_text(program):
    """As a reader sees it, on a line so long that nothing is broken."""
    done = run("groff", "-man", "-ww", "-Tascii", "-P-cbou", "-rLL=2000n", os.path.join(MADE, "man", page_name(program)))
    assert done.stderr == "", (program, done.stderr)
    return done.stdout


def sections(text):
    """Heading of a command in sijil(1) -> what stands under it."""
    parts = re.split(r"^   (sijil [a-z].*)$", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def pages_have_no_warning():
    for name in sorted(os.listdir(os.path.join(MADE, "man"))):
        path = os.path.join(MADE, "man", name)
        for command in (["groff", "-man", "-ww", "-Tutf8", "-z", path], ["man", "--warnings", "-l", path]):
            done = run(*command, env={**os.environ, "LC_ALL": "C.UTF-8", "MANROFFSEQ": ""})
            assert done.stderr == "", (command, done.stderr)


def help_has_eighty_columns():
    """A word that has no blank, such as a URL, may be longer."""
    shown = [(program,) for program in ("sijild", "sijil-keyd", "sijil-verify", "sijil-runner", "sijil-witness", "sijil-audit-dump", "sijil")]
    for words in [*shown, *[("sijil", *command.split()) for command in commands()]]:
        for line in help_of(*words).splitlines():
            assert len(line) <= 80 or " " not in line.strip(), (words, line)


def programs_agree():
    for program in ("sijild", "sijil-keyd", "sijil-verify", "sijil-runner", "sijil-witness", "sijil-audit-dump"):
        options = options_of(help_of(program))
        assert len(options) >= 5, (program, options)
        page, bash, zsh = page_text(program), read("bash", program), read("zsh", "_" + program)
        offered = set(OPTION.findall(re.search(r"offered='([^']*)'", bash).group(1)))
        assert offered == options, (program, "bash", offered ^ options)
        assert set(re.findall(r"'\*(--[a-z0-9-]+)", zsh)) == options, (program, "zsh")
        tagged = set(re.findall(r"^ {7}(--[a-z0-9-]+)", page, flags=re.M))
        assert tagged == options, (program, "page", tagged ^ options)


def commands_agree():
    names = commands()
    assert len(names) >= 20, names
    page = page_text("sijil")
    shared = options_of(page.split("OPTIONS OF EVERY COMMAND")[1].split("COMMANDS")[0], 14)
    assert "--json" in shared and "--verbose" in shared, shared
    under = sections(page)
    zsh = read("zsh", "_sijil")
    for name in names:
        options = options_of(help_of("sijil", *name.split()))
        letters = re.findall(r"^ +-(\w),? ", help_of("sijil", *name.split()), re.M)
        assert letters and len(letters) == len(set(letters)), (name, letters)
        title = next(title for title in under if re.match(rf"sijil {name}( \[| [^a-z]|$)", title))
        assert options_of(under[title], 14) | shared == options, (name, "page", options_of(under[title], 14), options)
        case = re.search(rf"^'{name} '\*\)(.*?);;$", zsh, flags=re.M | re.S).group(1)
        assert set(re.findall(r"(?:,|'\*)(--[a-z0-9-]+)=?[}\[]", case)) == options, (name, "zsh", case)
        assert set(completed("sijil", *name.split(), "--")) == \
            {option + ("=" if re.search(rf"{option}=", help_of("sijil", *name.split())) else "") for option in options}, name


def completed(program, *words, folder=None):
    """What bash offers for the last of the words; bash itself splits at '='."""
    parts = [program]
    for word in words:
        parts += [part for part in re.split("(=)", word) if part] or [""]
    quoted = " ".join("'" + part + "'" for part in parts)
    function = "_" + program.replace("-", "_")
    script = (f". '{os.path.join(MADE, 'bash', program)}'; COMP_WORDS=({quoted}); COMP_CWORD={len(parts) - 1}; "
              f"{function}; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
    return run("bash", "-uc", script, cwd=folder).stdout.split()


def bash_completes():
    rows = [
        (("sijil", "p"), ["push", "pull", "policy"]),
        (("sijil", "admin", "ro"), ["robot", "role"]),
        (("sijil", "admin", "job", ""), ["list", "show", "findings", "stop"]),
        (("sijil", "admin", "robot", "re"), ["revoke"]),
        (("sijil", "push", "--an"), ["--annotation="]),
        (("sijil", "login", "--ca-file=READ"), ["README.md"]),
        (("sijil", "login", "--ca-file", "READ"), ["README.md"]),
        (("sijil", "push", "READ"), ["README.md"]),
        (("sijil", "login", "--username=READ"), []),
        (("sijild", "--config=READ"), ["README.md"]),
        (("sijild", "--list"), ["--listen-address=", "--listen-port="]),
        (("sijil-verify", "pr"), ["proof"]),
    ]
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    for words, expected in rows:
        assert completed(*words, folder=root) == expected, (words, completed(*words, folder=root), expected)


def zsh_reads_them():
    for name in os.listdir(os.path.join(MADE, "zsh")):
        run("zsh", "-n", os.path.join(MADE, "zsh", name))
    # What would be offered, with the two functions of compsys that do it replaced by ones that print.
    path = os.path.join(MADE, "zsh", "_sijil")
    stand_in = "compadd() { print -l -- $@ }; _arguments() { print -l -- $@ };"
    said = run("zsh", "-fc", f"{stand_in} words=(sijil admin robot ''); CURRENT=4; . {path}").stdout.split()
    assert said == ["--", "create", "list", "rotate", "revoke"], said
    said = run("zsh", "-fc", f"{stand_in} words=(sijil pull --); CURRENT=3; . {path}").stdout
    assert "{" not in said and "--output=[" in said and ":_files" in said, said


def settings_agree():
    sample = run(os.path.join(BUILD, "cmd", "sijild"), "--sample-config").stdout
    names = re.findall(r"^(?:#\s*)?#?([a-z_]+) = ", sample, flags=re.M)
    assert len(names) > 25 and "location" in names, names
    tagged = re.findall(r"^ {7}([a-z_]+)(?: |$)", page_text("sijild.conf"), flags=re.M)
    assert tagged == names, set(tagged) ^ set(names)


if __name__ == "__main__":
    for test in (pages_have_no_warning, help_has_eighty_columns, programs_agree, commands_agree, bash_completes, zsh_reads_them, settings_agree):
        test()
        print("ok", test.__name__)
