"""OpenCode's server, as far as permission requests go: fake_opencode.py --port N

Two requests are open. Each answer that it takes is one line of JSON in $HOME/answers.
"""
import base64
import http.server
import json
import os
import sys

port = int(sys.argv[sys.argv.index("--port") + 1])
user = "opencode:" + os.environ["OPENCODE_SERVER_PASSWORD"]
expected = "Basic " + base64.b64encode(user.encode()).decode()
asked = [{"id": f"per_{n}", "sessionID": "ses_lab1", "permission": "bash", "patterns": [f"ls {n}"],
          "metadata": {}} for n in (1, 2)]


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def is_known(self):
        if self.headers["Authorization"] == expected:
            return True
        self.answer(401, {})
        return False

    def do_GET(self):
        if self.is_known():
            self.answer(200, asked)

    def do_POST(self):
        if not self.is_known():
            return
        reply = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        id = self.path.split("/")[2]
        meant = [one for one in asked if one["id"] == id]
        if not meant:
            return self.answer(404, {})
        asked.remove(meant[0])
        with open(os.path.join(os.environ["HOME"], "answers"), "a") as file:
            file.write(json.dumps({"id": id, **reply}) + "\n")
        self.answer(200, True)

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", port), Handler)
print("serving", flush=True)
server.serve_forever()
