"""Qwen Code's pair of files, as far as permission requests go: fake_qwen.py --input-file F --json-file G

Three requests are open; a person answers the third on the screen. Each line that it reads is one in $HOME/answers.
"""
import json
import os
import sys
import time

place = lambda option: sys.argv[sys.argv.index(option) + 1]
out = open(place("--json-file"), "w")


def say(**what):
    out.write(json.dumps(what) + "\n")
    out.flush()


def decide(request, **how):
    say(type="control_response", response={"request_id": request, **how})


say(type="system", subtype="session_start", session_id="77777777-0000-4000-8000-000000000001")
for n in (1, 2, 3):
    asked = {"subtype": "can_use_tool", "tool_name": "run_shell_command", "input": {"command": f"ls {n}"}}
    say(type="control_request", request_id=f"req-{n}", request=asked)
decide("req-3", subtype="success", response={"allowed": False})
print("asking", flush=True)
asked, read = {"req-1", "req-2"}, 0
while True:
    lines = open(place("--input-file")).read().splitlines()
    for line in lines[read:]:
        read += 1
        with open(os.path.join(os.environ["HOME"], "answers"), "a") as file:
            file.write(line + "\n")
        told = json.loads(line)
        if told["request_id"] in asked:
            asked.remove(told["request_id"])
            decide(told["request_id"], subtype="success", response={"allowed": told["allowed"]})
        else:
            decide(told["request_id"], subtype="error", error="unknown")
    time.sleep(0.02)
