"""A build whose steps take as long as a script says; it speaks harness/arms/arm_protocol.h.

usage: scripted_arm.py SCRIPT arm PLAN...

SCRIPT is a JSON file: what a real arm said of the plan ("hello"), a record of a turn of each cell
of its only launch ("trials"), and how long a step of each takes ("step_s"). Steps spread by half a
percent, other ones in every process, the same ones in every run: a file beside SCRIPT counts the
processes, and their numbers are the seeds. No time is spent.
"""

import copy
import json
import random
import sys
from pathlib import Path

SPREAD = 0.005


def number_of_this_process(path):
    with open(path, "a+") as starts:
        starts.write("x")
        return starts.tell()


class Arm:
    def __init__(self, script, seed):
        self.hello, self.trials = script["hello"], script["trials"]
        self.step_s = script["step_s"]
        self.random = random.Random(seed)

    def steps_of(self, cell, count):
        return [self.step_s[cell] * self.random.gauss(1, SPREAD) for _ in range(count)]

    def trial(self, cell, warmup_steps, steps):
        """The record of a block: that of the real arm, with other times."""
        trial = copy.deepcopy(self.trials[cell])
        warmup_s, steps_s = self.steps_of(cell, warmup_steps), self.steps_of(cell, steps)
        for each in [trial, *trial["ranks"]]:
            each["step_s"], each["warmup_step_s"] = steps_s, warmup_s
        for rank in trial["ranks"]:
            rank["block_s"] = sum(steps_s)
            rank["exposed_comm_s"] = [0.0] * steps
            rank["phase_s"] = {phase: [0.0] * steps for phase in rank["phase_s"]}
            rank["phase_s"]["forward"] = steps_s
        return trial

    def answer(self, request):
        if "open" in request:
            return {"event": "opened", "launch": request["open"]}
        if "turn" in request:
            return {"event": "trial", "trial": self.trial(**request["turn"])}
        return {"event": "closed"}


def say(message):
    print(json.dumps(message), flush=True)


def main():
    script = Path(sys.argv[1])
    arm = Arm(json.loads(script.read_text()), number_of_this_process(script.parent / "starts"))
    say(arm.hello)
    for line in sys.stdin:
        say(arm.answer(json.loads(line)))


if __name__ == "__main__":
    main()
