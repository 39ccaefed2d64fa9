#!/usr/bin/env python3
"""usage: recipes.py check SOURCE-FOLDER         The recipes of CONTRIBUTING.md fit the tree, and none has more files than it may
       recipes.py apply TREE                   Follows them all in a copy of the tree
       recipes.py names|build|tests TREE       What they are, what is built for them, and which tests their proofs name
       recipes.py proof TREE NAME              What shows that the new thing is there
       recipes.py compare SOURCE-FOLDER TREE   The tree where they were followed differs from the source in the files that they name

A recipe is a section "### A thing: N files". Its steps are lines "N. `file`, above `anchor`:", "N. `file`, below `anchor`:",
"N. `file`, at the end:" or "N. `file`, new:", each with one fenced block. The anchor stands in one line of the file. "..." instead of the
number of a migration is the next number. A block ```sh behind the steps is run in the tree; "Built: ..." names targets, "Generated: ..." the
pages that the target docs writes. N counts the files of all steps.
"(the work)" behind a file: it does what the new event records, so MOST does not count it."""
import filecmp
import os
import re
import sys

PAGE = "CONTRIBUTING.md"
MOST = {"route": 2, "permission": 1, "table": 3, "fact": 3, "command": 2, "event": 1, "state": 3, "message": 7, "option": 5}
STEP = re.compile(r"^\d+\. `([^`]+)`( \(the work\))?, (?:(above|below) `([^`]+)`|(at the end)|(new)):\n\n```\w*\n(.*?)^```\n", re.M | re.S)


class Recipe:
    def __init__(self, name, body):
        self.name = name
        self.count = re.match(r".*?: (\d+) files?\n", body)
        found = list(STEP.finditer(body))
        self.steps = [(match[1], match[3] or match[5] or match[6], match[4], match[7]) for match in found]
        self.work = {match[1] for match in found if match[2]}
        self.generated = self.listed(body, "Generated")
        self.proof = "".join(re.findall(r"^```sh\n(.*?)^```\n", body, re.M | re.S))
        self.built = self.listed(body, "Built")

    @staticmethod
    def listed(body, what):
        line = re.search(rf"^{what}: (.*)$", body, re.M)
        return re.findall(r"`([^`]+)`", line[1]) if line else []

    def tests(self):
        """The names in `ctest ... -R '^(one|two)$'`: ctest itself runs what it finds and does not miss the others."""
        return [name for names in re.findall(r"-R '\^\(?([\w|]+)\)?\$'", self.proof) for name in names.split("|")]

    def files(self):
        return {path for path, _, _, _ in self.steps} - self.work


def recipes(root):
    with open(os.path.join(root, PAGE), encoding="utf-8") as file:
        _, found, rest = file.read().partition("\n## Recipes\n")
    sections = re.split(r"^### ", rest.split("\n## ")[0], flags=re.M)[1:] if found else []
    return [Recipe(re.match(r"An? (\w+)", section)[1], section) for section in sections]


def place_of(root, path):
    """A migration gets the next number."""
    if "..." not in path:
        return os.path.join(root, path)
    folder, name = os.path.split(path)
    numbers = [int(entry[:4]) for entry in os.listdir(os.path.join(root, folder)) if re.match(r"\d{4}_", entry)]
    return os.path.join(root, folder, name.replace("...", f"{max(numbers) + 1:04}"))


def changed(text, where, anchor, lines, path):
    if where == "at the end":
        return text + lines
    found = [line for line in text.splitlines(keepends=True) if anchor in line]
    if len(found) != 1:
        raise ValueError(f"{len(found)} lines of {path} have {anchor!r}, not one: choose another anchor")
    before, after = text.split(found[0])
    return before + (lines + found[0] if where == "above" else found[0] + lines) + after


def follow(root, recipe, write):
    """The files as the recipe makes them."""
    made = {}
    for path, where, anchor, lines in recipe.steps:
        place = place_of(root, path)
        if where == "new":
            if os.path.exists(place):
                raise ValueError(f"{path} is there already")
            made[place] = lines
            continue
        if place not in made:
            with open(place, encoding="utf-8") as file:
                made[place] = file.read()
        made[place] = changed(made[place], where, anchor, lines, path)
    for place, text in made.items() if write else ():
        with open(place, "w", encoding="utf-8") as file:
            file.write(text)


def check(root):
    problems, found = [], recipes(root)
    if sorted(recipe.name for recipe in found) != sorted(MOST):
        problems.append(f"{PAGE} has recipes for {', '.join(sorted(recipe.name for recipe in found))}, not for {', '.join(sorted(MOST))}")
    for recipe in found:
        if not recipe.steps or not recipe.proof or not recipe.built:
            problems.append(f"{PAGE}: the recipe for a {recipe.name} has no steps, builds nothing or proves nothing")
        every = len(recipe.files() | recipe.work)
        if recipe.count is None or int(recipe.count[1]) != every:
            problems.append(f"{PAGE}: the heading of the recipe for {recipe.name} does not say that it has {every} files")
        if len(recipe.files()) > MOST.get(recipe.name, 0):
            problems.append(f"{PAGE}: a {recipe.name} touches {len(recipe.files())} files, and not at most {MOST.get(recipe.name)}")
        try:
            follow(root, recipe, False)
        except (ValueError, OSError) as why:
            problems.append(f"{PAGE}: a {recipe.name}: {why}")
    print("\n".join(problems))
    return not problems


def files_of(root):
    for folder, folders, names in os.walk(root):
        folders[:] = [each for each in folders if each not in ("build", ".git", "__pycache__")]
        yield from (os.path.relpath(os.path.join(folder, name), root) for name in names)


def compare(root, tree):
    """A file of the source that the copy lacks is not tracked."""
    found = [path for path in files_of(tree) if not (os.path.exists(os.path.join(root, path))
                                                     and filecmp.cmp(os.path.join(root, path), os.path.join(tree, path), shallow=False))]
    touched = {re.sub(r"/\d{4}_", "/..._", path) for path in found}
    named = {path for recipe in recipes(root) for path in recipe.files() | recipe.work | set(recipe.generated)}
    problems = [f"{PAGE}: the recipes change {path}, which none of them names" for path in sorted(touched - named)]
    problems += [f"{PAGE}: a recipe names {path}, which does not change" for path in sorted(named - touched)]
    print("\n".join(problems))
    return not problems


def main():
    command, root, *name = sys.argv[1:]
    if command == "compare":
        sys.exit(0 if compare(root, name[0]) else 1)
    if command == "check":
        sys.exit(0 if check(root) else 1)
    for recipe in recipes(root):
        if command == "apply":
            follow(root, recipe, True)
        elif command == "names":
            print(recipe.name)
        elif command == "build":
            print(" ".join(recipe.built))
        elif command == "tests":
            print("\n".join(recipe.tests()))
        elif command == "proof" and recipe.name == name[0]:
            print(recipe.proof, end="")


if __name__ == "__main__":
    main()
