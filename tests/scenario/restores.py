#!/usr/bin/env python3
"""Database and folder of sijil-keyd come back in all combinations of now, an older copy, a truncated log and another history: at a start, and
while a gateway serves (the table of docs/backup.md). What can't be found without witnesses is here, too: cosigning.py has it with them."""
import hashlib
import os
import shutil
import subprocess

from apart import Apart
from sijil_test import program, run, wait_until
from workers import BROKEN

TRUNCATED, OTHER_HISTORY, NOT_SIGNED = "it was truncated, or restored from an older backup", "are not those that sijil-keyd has signed", "found the log changed"
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/backup.md")
server = Apart()
sizes = {}


def keep(name):
    sizes[name] = server.await_signed()
    server.rest()
    server.keep(name)


def again(database, keyd):
    """A start with these copies of both."""
    server.rest()
    server.put_database(database)
    server.put_keyd(keyd)
    server.start_gateway()


def cut_last(cut):
    """What the owner of the database does who wants to lose the events from `cut` on: all rows fit each other afterwards."""
    rows = server.sql(f"SELECT encode(leaf_hash, 'hex') FROM audit_entry WHERE seq < {cut} ORDER BY seq").split("\n")
    hashes, frontier, at = [bytes.fromhex(row) for row in rows], [], 0
    assert len(hashes) == cut
    for bit in reversed(range(cut.bit_length())):
        if cut >> bit & 1:
            frontier.insert(0, tree(hashes[at:at + (1 << bit)]))
            at += 1 << bit
    server.sql(f"DELETE FROM audit_entry WHERE seq >= {cut}; DELETE FROM audit_payload WHERE seq >= {cut}; DELETE FROM audit_run WHERE last >= {cut};"
               f"DELETE FROM audit_checkpoint WHERE size > {cut}; DELETE FROM audit_tile WHERE (idx + 1) * (256::bigint << (8 * level)) > {cut};"
               f"UPDATE audit_log SET size = {cut}, last_ts = (SELECT ts FROM audit_entry WHERE seq = {cut - 1}), frontier = '\\x{b''.join(frontier).hex()}'")


def tree(hashes):
    while len(hashes) > 1:
        hashes = [hashlib.sha256(b"\1" + hashes[i] + hashes[i + 1]).digest() for i in range(0, len(hashes), 2)]
    return hashes[0]


def copies_are_made():
    """older: a backup. now: what was signed last. other: another history since the backup, longer than now. truncated: now without its last two events."""
    server.prepare()
    server.grow(3)
    keep("older")
    again("older", "older")
    assert server.serves()
    server.grow(3)
    keep("now")
    again("older", "older")
    assert server.serves()
    server.grow(9)
    keep("other")
    assert sizes["older"] < sizes["now"] < sizes["other"], sizes
    server.put_database("now")
    sizes["truncated"] = sizes["now"] - 2
    cut_last(sizes["truncated"])
    server.sql("CHECKPOINT")
    server.postgres_does("crash")
    server.keep("truncated")


# What a start says: None if it serves.
AT_START = {
    ("now", "now"): None,
    ("older", "now"): TRUNCATED,
    ("truncated", "now"): TRUNCATED,
    ("other", "now"): OTHER_HISTORY,
    ("now", "older"): None,         # the later events are signed, too
    ("older", "older"): None,       # without witnesses nobody knows more
    ("truncated", "older"): None,   # the same
    ("other", "older"): None,       # the same: another history is signed
    ("now", "other"): TRUNCATED,    # the other history is longer
    ("older", "other"): TRUNCATED,
    ("truncated", "other"): TRUNCATED,
    ("other", "other"): None,
}


def every_combination_is_found_at_the_start():
    for (database, keyd), wanted in AT_START.items():
        mark = server.mark()
        again(database, keyd)
        assert server.serves() == (wanted is None), (database, keyd, server.said_since(mark)[-3000:])
        said = server.said_since(mark)
        if wanted is not None:
            assert wanted in said and "docs/backup.md" in said, (database, keyd, said[-3000:])


def check_online(database, keyd, wanted):
    server.rest()
    server.put_database(database)
    server.put_keyd(keyd)
    done = subprocess.run([program("sijild"), "--config", server.path("sijild.conf"), "--check-config", "--online"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode == 0) == (wanted is None), (database, keyd, done)
    assert wanted is None or wanted in done.stdout + done.stderr, (database, keyd, done)


def the_check_before_a_start_says_it_too():
    check_online("now", "now", None)
    check_online("older", "now", TRUNCATED)


def is_refused(wanted):
    """A gateway that serves finds it: each request is refused, without an hour to come again, and the reason is told."""
    def reason():
        try:
            answer = server.client().call("GET", "/readyz")
        except BROKEN:
            return ""
        return answer.body.decode() if answer.status == 503 else ""
    wait_until(lambda: any(words in reason() for words in wanted), 30, f"it is not found while serving: {reason()}")
    answer = server.client().call("GET", "/v2/")
    assert answer.status == 503 and answer["Retry-After"] is None and b"not the one that was signed" in answer.body, (answer.status, answer.body)


def swap_database(name):
    server.postgres_does("crash")
    shutil.rmtree(server.path("data.latest"), ignore_errors=True)
    subprocess.run(["cp", "-a", server.data(), server.path("data.latest")], check=True)
    server.put_database(name)


def swap_keyd(name):
    server.stop_keyd()
    server.put_keyd(name)


def the_finding_stays_until_a_person_ends_it():
    """The right database comes back: keyd remembers what was found, also over its restart."""
    mark = server.mark()
    server.rest()
    server.put_database("latest")
    server.start_keyd()
    server.start_gateway()
    assert not server.serves()
    assert NOT_SIGNED in server.said_since(mark) and "docs/audit.md" in server.said_since(mark)
    server.stop_keyd()
    done = subprocess.run([program("sijil-keyd"), *server.keyd_words(), "--log-restored"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and TRUNCATED in done.stdout + done.stderr, done
    server.start_keyd()
    server.start_gateway()
    assert server.serves()


def a_database_that_is_exchanged_while_a_gateway_serves_is_found():
    for name, wanted in (("older", [TRUNCATED]), ("truncated", [TRUNCATED]), ("other", ["does not continue", "was changed", "is not as it was signed"])):
        again("now", "now")
        assert server.serves()
        swap_database(name)
        is_refused(wanted)
        if name == "older":
            the_finding_stays_until_a_person_ends_it()


def a_folder_of_keyd_that_is_exchanged_while_a_gateway_serves_is_found():
    again("now", "now")
    assert server.serves()
    swap_keyd("older")  # it goes on: sijil-keyd signs what came since
    wait_until(lambda: server.is_ready(), 30, "it does not go on with an older folder of sijil-keyd")
    server.grow()
    again("now", "now")
    assert server.serves()
    swap_keyd("other")
    is_refused([TRUNCATED])


def both_that_are_exchanged_while_a_gateway_serves_are_found():
    """The gateway remembers what it has had signed."""
    for name, wanted in (("older", [TRUNCATED]), ("other", ["does not continue", "was changed", "is not as it was signed"])):
        again("now", "now")
        assert server.serves()
        server.postgres_does("crash")
        server.stop_keyd()
        server.put_keyd(name)
        server.put_database(name)
        is_refused(wanted)


def the_page_has_what_is_said():
    with open(PAGE, encoding="utf-8") as file:
        page = " ".join(file.read().split())
    for words in (TRUNCATED, "are not those that sijil-keyd has signed", NOT_SIGNED, "does not continue", "were set back together"):
        assert words in page, words


run(copies_are_made, every_combination_is_found_at_the_start, the_check_before_a_start_says_it_too, a_database_that_is_exchanged_while_a_gateway_serves_is_found,
    a_folder_of_keyd_that_is_exchanged_while_a_gateway_serves_is_found, both_that_are_exchanged_while_a_gateway_serves_are_found, the_page_has_what_is_said, server=server)
