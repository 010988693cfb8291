"""An agent on a terminal that does the wrong thing on purpose: fake_agent.py RECORD KEY=VALUE...

start=S      seconds until it is ready        paste=0    never asks for brackets
raw=0        stays in canonical mode          swallow=N  the first N Enters do nothing
show=S       seconds until a paste is shown   place=1    shows a placeholder for a paste
dialog=1     a question is open               opens=1    a question opens when a paste arrives
claude=DIR   keeps a registration and a transcript there, as Claude Code does; then also:
status=WORD  what the registration says       alter=1    records another text than it was given
late=S       seconds until it records a prompt

Every prompt that it takes, and every approval, is one line of JSON in RECORD.
"""
import json
import os
import select
import sys
import time
import tty

record = sys.argv[1]
options = dict(one.split("=") for one in sys.argv[2:])
number = lambda name, default=0: float(options.get(name, default))
history, composer, shown_at, pastes = [], "", 0.0, 0
swallow, dialog = number("swallow"), number("dialog")


def note(**what):
    with open(record, "a") as file:
        file.write(json.dumps(what) + "\n")


SESSION = "5b1e0c52-8a5e-4b8e-9a55-d0a3a0c3c001"
late = []


def claude_file(below):
    path = os.path.join(options["claude"], below)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


def register():
    ticks = open("/proc/self/stat").read().rsplit(")", 1)[1].split()[19]
    now = int(time.time() * 1000)
    said = {"pid": os.getpid(), "sessionId": SESSION, "cwd": os.getcwd(), "startedAt": now,
            "procStart": ticks, "version": "2.1.325", "kind": "interactive",
            "status": options.get("status", "idle"), "updatedAt": now, "statusUpdatedAt": now}
    path = claude_file(f"sessions/{os.getpid()}.json")
    with open(path + ".new", "w") as file:
        json.dump(said, file)
    os.rename(path + ".new", path)


def record_prompt(text):
    at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    common = {"sessionId": SESSION, "cwd": os.getcwd(), "version": "2.1.325", "timestamp": at}
    lines = [
        {"type": "user", "message": {"role": "user", "content": text}, **common},
        {"type": "assistant", "message": {"id": f"msg_{time.time()}", "role": "assistant",
         "model": "fake", "content": [{"type": "text", "text": "done"}], "stop_reason": "end_turn",
         "usage": {"input_tokens": 1, "output_tokens": 1}}, **common},
    ]
    with open(claude_file(f"projects/-x/{SESSION}.jsonl"), "a") as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines))


def take_prompt(text):
    note(prompt=text)
    if "claude" in options:
        late.append((time.time() + number("late"), text + "!" if number("alter") else text))


def draw():
    out = "\x1b[?2026h\x1b[H\x1b[2J"
    for text in history[-4:]:
        out += "> " + text.replace("\n", "\r\n  ")[:400] + "\r\n\r\n"
    if dialog:
        out += "Run `rm -rf build`?\r\n\u276f 1. Yes\r\n  2. No (esc)\r\n"
    else:
        text = composer if time.time() >= shown_at else ""
        if number("place") and len(text) > 100:
            text = f"[Pasted text #{pastes} +{text.count(chr(10))} lines]"
        rows = []
        for line in text.split("\n"):
            rows += [line[at : at + 70] for at in range(0, max(len(line), 1), 70)]
        out += "\u256d" + "\u2500" * 74 + "\u256e\r\n"
        for at, row in enumerate(rows[-12:]):
            out += "\u2502 " + ("> " if at == 0 else "  ") + row.ljust(70) + " \u2502\r\n"
        out += "\u2570" + "\u2500" * 74 + "\u256f\r\n  ? for help"
    os.write(1, (out + "\x1b[?2026l").encode())


time.sleep(number("start"))
if "claude" in options:
    record_prompt("begin")
    register()
if number("raw", 1):
    tty.setraw(0)
if number("paste", 1):
    os.write(1, b"\x1b[?2004h")
draw()
buffer = b""
while True:
    while late and late[0][0] <= time.time():
        record_prompt(late.pop(0)[1])
    wait = max(0.0, late[0][0] - time.time()) if late else shown_at - time.time()
    ready, _, _ = select.select([0], [], [], wait if late or wait > 0 else None)
    if not ready:
        shown_at = 0.0
        draw()
        continue
    got = os.read(0, 65536)
    if not got:
        break
    buffer += got
    while buffer:
        if buffer.startswith(b"\x1b[200~"):
            end = buffer.find(b"\x1b[201~")
            if end < 0:
                break
            text, buffer = buffer[6:end].decode().replace("\r", "\n"), buffer[end + 6 :]
            pastes += 1
            note(pasted=len(text))
            if number("opens"):
                dialog = 1
            if not dialog:
                composer += text
                shown_at = time.time() + number("show")
            continue
        if buffer[:1] == b"\x1b" and len(buffer) < 6 and b"\x1b[200~".startswith(buffer):
            break
        byte, buffer = buffer[:1], buffer[1:]
        if byte in b"\r\n":
            note(enter=True)
            if dialog:
                note(approved=True)
                dialog = 0
            elif swallow > 0:
                swallow -= 1
            elif composer:
                take_prompt(composer)
                history.append(composer)
                composer = ""
        elif dialog and byte in b"1y":
            note(approved=True)
            dialog = 0
        elif byte >= b" " and not dialog:
            composer += byte.decode("latin-1")
    draw()
