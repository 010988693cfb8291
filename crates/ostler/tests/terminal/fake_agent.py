"""An agent on a terminal that does the wrong thing on purpose: fake_agent.py RECORD KEY=VALUE...

start=S      seconds until it is ready        paste=0    never asks for brackets
raw=0        stays in canonical mode          swallow=N  the first N Enters do nothing
show=S       seconds until a paste is shown   place=1    shows a placeholder for a paste
dialog=1     a question is open               opens=1    a question opens when a paste arrives
pops=S       a question opens so long after a paste arrived
plain=1      its questions have words to choose from, and no numbers
claude=DIR   keeps a registration and a transcript there, as Claude Code does; then also:
status=WORD  what the registration says       alter=1    records another text than it was given
late=S       seconds until it records a prompt
alter=2      records its beginning only      alter=3    records it with one letter changed
drops=N      records so many prompts and no more
rotates=1    puts its transcript aside and records in a new one; rotates=2: copies an old record of the text there, and does not record it
turn=S       seconds until its turn ends      end=WORD   how: answered, failed, limited, interrupted
asks=S       after so long a question is open in the turn
trust=1      asks whether to trust the directory; login=1, update=1 in the same way
exits=N      says something and ends with N   wrong=1    goes on with another conversation than it is told
hangs=1      headless, does not end after its turn
restores=1   puts a prompt that was interrupted back into the composer, as Claude Code does
clears=1     begins another conversation with the next prompt, as after /clear; clears=2 and does not record it
version=V    which version it says that it is
denies=1     a tool of its turn is denied
blank=S      switches its terminal over, and draws nothing for so long
What follows `--` are Claude Code's own arguments: --session-id ID, --resume ID, --fork-session, -p.

Every prompt that it takes, and every approval, is one line of JSON in RECORD.
"""
import json
import os
import select
import sys
import time
import tty

words = sys.argv[2:]
own, agent_words = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, None)
record = sys.argv[1]
options = dict(one.split("=") for one in own)
number = lambda name, default=0: float(options.get(name, default))
history, composer, shown_at, pastes = [], "", 0.0, 0
swallow, dialog = number("swallow"), number("dialog")
pops_at = 0.0


def note(**what):
    with open(record, "a") as file:
        file.write(json.dumps({**what, "at": time.time()}) + "\n")


SESSION = "5b1e0c52-8a5e-4b8e-9a55-d0a3a0c3c001"
late, ends, status, recorded = [], [], options.get("status", "idle"), 0
argument = lambda name: agent_words[agent_words.index(name) + 1] if name in (agent_words or []) else None
if agent_words is not None:
    SESSION = argument("--resume") or argument("--session-id") or SESSION
    if number("wrong") or "--fork-session" in agent_words:
        SESSION = "77777777-7777-4777-8777-" + "%012d" % os.getpid()
    note(started=SESSION, argv=agent_words, marks=[name for name in os.environ if "CLAUDE" in name])


def claude_file(below):
    path = os.path.join(options["claude"], below)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


def register():
    ticks = open("/proc/self/stat").read().rsplit(")", 1)[1].split()[19]
    now = int(time.time() * 1000)
    said = {"pid": os.getpid(), "sessionId": SESSION, "cwd": os.getcwd(), "startedAt": now,
            "procStart": ticks, "version": options.get("version", "2.1.325"), "kind": "interactive",
            "status": status, "updatedAt": now, "statusUpdatedAt": now}
    path = claude_file(f"sessions/{os.getpid()}.json")
    with open(path + ".new", "w") as file:
        json.dump(said, file)
    os.rename(path + ".new", path)


def append_lines(lines, at=None):
    now = time.time()
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
    at = at or f"{seconds}.{int(now * 1000) % 1000:03d}Z"
    common = {"sessionId": SESSION, "cwd": os.getcwd(), "timestamp": at,
              "version": options.get("version", "2.1.325")}
    with open(claude_file(f"projects/-x/{SESSION}.jsonl"), "a") as file:
        file.write("".join(json.dumps({**line, **common}) + "\n" for line in lines))


def record_end():
    global status
    end = options.get("end", "answered")
    answer = {"type": "assistant", "message": {"id": f"msg_{time.time()}", "role": "assistant",
              "model": "fake", "content": [{"type": "text", "text": "done"}], "stop_reason": "end_turn",
              "usage": {"input_tokens": 1, "output_tokens": 1}}}
    if end == "interrupted":
        answer = {"type": "user", "message": {"role": "user", "content": [
                  {"type": "text", "text": "[Request interrupted by user]"}]}}
    elif end != "answered":
        answer.update(isApiErrorMessage=True, error="rate_limit" if end == "limited" else "server_error")
    append_lines([answer])
    note(ended=end)
    if status != options.get("status", "idle"):
        status = options.get("status", "idle")
        register()


def record_denial():
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "rm -rf build"}}
    append_lines([
        {"type": "assistant", "message": {"id": "m1", "role": "assistant", "model": "fake",
         "content": [call], "stop_reason": "tool_use", "usage": {"input_tokens": 1, "output_tokens": 1}}},
        {"type": "user", "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1",
         "is_error": True, "content": "Permission to use Bash has been denied"}]}}])


def record_prompt(text):
    global status, SESSION, recorded
    if number("clears"):
        SESSION = "88888888-8888-4888-8888-%012d" % os.getpid()
        register()
        if number("clears") > 1:
            return
        options["clears"] = "0"
    told = {"type": "user", "message": {"role": "user", "content": text}}
    path = claude_file(f"projects/-x/{SESSION}.jsonl")
    if number("drops") and recorded >= number("drops"):
        return
    recorded += 1
    if number("rotates") and os.path.exists(path):
        os.rename(path, path + ".old")
        if number("rotates") > 1:
            append_lines([told], "2020-01-01T00:00:00.000Z")
            return
    append_lines([told])
    note(recorded=True)
    if number("denies"):
        record_denial()
    if not number("turn"):
        record_end()
    elif agent_words is None or "-p" not in agent_words:
        ends.append(time.time() + number("turn"))
        status = "busy"
        register()


def take_prompt(text):
    note(prompt=text)
    if "claude" in options:
        altered = [text, text + "!", text[:-1], text.replace("e", "a", 1)][int(number("alter"))]
        late.append((time.time() + number("late"), altered))


HEADINGS = [("trust", "Do you trust the files in this folder?"), ("login", "Select login method:"),
            ("update", "Update available!\r\n  3. Skip until next version")]


def run_headless():
    text = sys.stdin.read()
    note(prompt=text)
    if number("exits"):
        print("API key is wrong", file=sys.stderr)
        sys.exit(int(number("exits")))
    print(json.dumps({"type": "system", "session_id": SESSION}), flush=True)
    time.sleep(number("late"))
    record_prompt(text)
    if number("turn"):
        time.sleep(number("turn"))
        record_end()
    print(json.dumps({"type": "result", "session_id": SESSION}), flush=True)
    time.sleep(3600 if number("hangs") else 0)
    sys.exit(0)


def draw():
    out = "\x1b[?2026h\x1b[H\x1b[2J"
    for text in history[-4:]:
        out += "> " + text.replace("\n", "\r\n  ")[:400] + "\r\n\r\n"
    asked = [heading for option, heading in HEADINGS if number(option)]
    if asked:
        out += asked[0] + "\r\n\u276f 1. Yes, proceed\r\n  2. No, exit\r\n"
    elif dialog:
        choices = "\u276f 1. Yes\r\n  2. No (esc)\r\n" if not number("plain") else "  Yes   No\r\n"
        out += "Run `rm -rf build`?\r\n" + choices
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


if "-p" in (agent_words or []):
    run_headless()
time.sleep(number("start"))
if number("exits"):
    print("configuration is broken")
    sys.exit(int(number("exits")))
if "claude" in options:
    if agent_words is None:
        append_lines([{"type": "user", "message": {"role": "user", "content": "begin"}}])
        record_end()
    register()
if number("raw", 1):
    tty.setraw(0)
if number("paste", 1):
    os.write(1, b"\x1b[?2004h")
time.sleep(number("blank"))
note(drawn=True)
draw()
buffer = b""
while True:
    while late and late[0][0] <= time.time():
        record_prompt(late.pop(0)[1])
    while ends and ends[0] <= time.time():
        ends.pop(0)
        record_end()
    if pops_at and pops_at <= time.time():
        pops_at, dialog = 0.0, 1
        draw()
    if ends and number("asks") and status == "busy" and time.time() > ends[0] - number("turn") + number("asks"):
        status = "waiting"
        register()
    due = [one[0] for one in late[:1]] + ends[:1] + ([ends[0] - number("turn") + number("asks")] if ends and number("asks") and status == "busy" else [])
    due += [pops_at] if pops_at else []
    wait = max(0.0, min(due) - time.time()) if due else shown_at - time.time()
    ready, _, _ = select.select([0], [], [], wait if due or wait > 0 else None)
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
            if "pops" in options:
                pops_at = time.time() + number("pops")
            if not dialog and not any(number(option) for option, _ in HEADINGS):
                composer += text
                shown_at = time.time() + number("show")
            continue
        if buffer == b"\x1b" and ends:
            buffer = b""
            ends.clear()
            options["end"] = "interrupted"
            record_end()
            if number("restores"):
                composer = history[-1]
                draw()
            continue
        if buffer[:1] == b"\x1b" and len(buffer) < 6 and b"\x1b[200~".startswith(buffer):
            break
        byte, buffer = buffer[:1], buffer[1:]
        if byte in b"\r\n":
            note(enter=True)
            if dialog or any(number(option) for option, _ in HEADINGS):
                note(approved=True)
                dialog = 0
            elif swallow > 0:
                swallow -= 1
            elif composer:
                take_prompt(composer)
                history.append(composer)
                composer = ""
        elif byte == b"\x03":
            composer = ""
        elif dialog and byte in b"1y":
            note(approved=True)
            dialog = 0
        elif byte >= b" " and not dialog:
            composer += byte.decode("latin-1")
    draw()
