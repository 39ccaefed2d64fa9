"""Scrubs, rotation of keys and certificates of deletion, as an operator does them: with `sijil`, on a whole server."""
import glob
import json
import os
import signal
import subprocess
import sys
import time

import sijil_test
from sijil_test import Server, program

server = Server()
work = None


def sijil(*words, expect=0):
    environment = dict(os.environ, XDG_CONFIG_HOME=os.path.join(server.root, "config"), NO_COLOR="1")
    done = subprocess.run([program("sijil"), *words], capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == expect, f"sijil {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def host():
    return f"127.0.0.1:{server.port}"


def login(username, password):
    environment = dict(os.environ, XDG_CONFIG_HOME=os.path.join(server.root, "config"))
    done = subprocess.run([program("sijil"), "login", host(), "-u", username, "-p", "-c", server.ca_file],
                          input=password + "\n", capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr


def push(name, data):
    client = server.client(work)
    return client.push_blob(name, data)


def objects():
    return sorted((path for path in glob.glob(server.folder + "/**", recursive=True) if os.path.isfile(path)
                   and open(path, "rb").read(4) == b"SJB1"), key=os.path.getmtime)


def events(action, outcome):
    found = server.client(server.auditor).api("GET", "/audit/events?limit=1000")["events"]
    return [event["entry"] for event in found if event["entry"]["act"] == action and event["entry"]["out"] == outcome]
