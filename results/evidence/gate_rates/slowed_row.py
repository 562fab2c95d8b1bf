"""Stands between a gate and a build of gradsync, and makes one row of the build slower.

usage: slowed_row.py PROGRAM SHARE ROW arm PLAN [OPTION]...      ROW: its parameters, as JSON

It starts the build twice: once as the gate asks, and once more with that row alone and with SHARE
(5%) of real work added to each of its steps (harness/run/extra_work.h). Turns of the row go to the
second one, all others to the first. The two are up together, and the gate asks one at a time. The
protocol is that of harness/arms/arm_protocol.h.
"""

import json
import signal
import subprocess
import sys


class Arm:
    def __init__(self, command):
        pipe = subprocess.PIPE
        self.child = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def answer(self):
        """Returns the next answer, which may be none where the arm has ended. Signs of life are
        handed on."""
        for line in self.child.stdout:
            message = json.loads(line)
            if message["event"] != "busy":
                return message
            print(line, end="", flush=True)
        return sys.exit(self.child.wait())

    def ask(self, request):
        self.child.stdin.write(json.dumps(request) + "\n")
        self.child.stdin.flush()
        return self.answer()

    def end(self):
        self.child.stdin.close()
        self.child.wait()


def is_of(row, cell):
    return row.items() <= cell.items()


def answer_of(request, whole, slowed, place):
    """Returns the answer of the arm that the request is for; both start and end their ranks."""
    if request.get("turn", {}).get("cell") == place:
        return slowed.ask({"turn": request["turn"] | {"cell": 0}})
    answer = whole.ask(request)
    if "turn" in request or answer["event"] == "failed":
        return answer
    other = slowed.ask(request)
    return other if other["event"] == "failed" else answer


def main(program, share, row, *arguments):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the end of the input ends both
    row = json.loads(row)
    alone = [word for name, value in row.items() for word in ("--set", f"{name}={value}")]
    whole = Arm([program, *arguments])
    slowed = Arm([program, *arguments, *alone, "--extra-work", share])
    hello, _ = whole.answer(), slowed.answer()
    [launch] = hello["launches"]
    [place] = [index for index, cell in enumerate(launch["cells"]) if is_of(row, cell)]
    print(json.dumps(hello), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer_of(json.loads(line), whole, slowed, place)), flush=True)
    for arm in (whole, slowed):
        arm.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
