"""Codex's files, lock and queue: codex.py [exec], or codex.py queue --thread ID --message TEXT.

A file `options` in the home has words KEY=VALUE:
busy=S    works on a turn of its own for so long first      turn=S  how long the turn of a queued prompt takes
dies=1    ends when a prompt is queued, and takes it not    abort=1 takes it, and ends in the middle of the turn
stalls=1  `queue` does not end                              deaf=1  takes nothing from the queue
fails=1   `queue` fails, and leaves a process behind that holds its output
floods=1  `queue` says a megabyte first                     child=1 `queue` leaves it to a process of its own, and waits
"""
import fcntl
import json
import os
import subprocess
import sys
import time

home = os.environ["HOME"]
THREAD = "01a1e3c6-0000-7000-8000-0000000000aa"
try:
    options = dict(word.split("=") for word in open(os.path.join(home, "options")).read().split())
except FileNotFoundError:
    options = {}
number = lambda name: float(options.get(name, 0))
queue = os.path.join(home, "queue")
if sys.argv[1:2] == ["queue"]:
    if number("fails"):
        subprocess.Popen(["sleep", "300"])
        sys.exit("no such thread")
    sys.stderr.write("." * (1 << 20 if number("floods") else 0))
    # As its own parser has it: what begins with a dash is no value of the option before it.
    words, rest = {}, sys.argv[2:]
    while rest:
        name, _, value = rest.pop(0).partition("=")
        if not value and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        if name not in ("--thread", "--message") or not value:
            sys.exit(2)
        words[name] = value
    with open(queue, "a") as file:
        file.write(json.dumps({"thread": words["--thread"], "message": words["--message"]}) + "\n")
    if number("child"):
        with open(os.path.join(home, "child"), "w") as file:
            file.write(str(subprocess.Popen(["sleep", "300"]).pid))
    time.sleep(3600 * number("stalls"))
    sys.exit(0)

rollout = os.path.join(home, f".codex/sessions/2026/11/18/rollout-2026-11-18T00-00-00-{THREAD}.jsonl")
locks = os.path.join(home, ".codex/thread-writer-locks")
os.makedirs(os.path.dirname(rollout), exist_ok=True)
os.makedirs(locks, exist_ok=True)
lock = open(os.path.join(locks, f"{THREAD}.lock"), "w")
fcntl.flock(lock, fcntl.LOCK_EX)
record = open(rollout, "a")


def write(kind, **payload):
    now = time.time()
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + ".%03dZ" % int(now % 1 * 1000)
    record.write(json.dumps({"timestamp": at, "type": kind, "payload": payload}) + "\n")
    record.flush()


def take(text, seconds):
    write("event_msg", type="task_started")
    content = [{"type": "input_text", "text": text}]
    write("response_item", type="message", role="user", content=content)
    time.sleep(seconds)


write("session_meta", id=THREAD, cwd=os.getcwd(), cli_version="0.166.0")
take("do it", 0)
write("event_msg", type="task_complete")
print("ready", flush=True)
if number("busy"):
    take("a long one", number("busy"))
    write("event_msg", type="task_complete")
taken = 0
while True:
    lines = open(queue).read().splitlines() if os.path.exists(queue) and not number("deaf") else []
    for line in lines[taken:]:
        if number("dies"):
            sys.exit(0)
        taken += 1
        take(json.loads(line)["message"], number("turn"))
        if number("abort"):
            write("event_msg", type="turn_aborted", reason="interrupted")
            sys.exit(0)
        write("event_msg", type="task_complete")
    time.sleep(0.02)
