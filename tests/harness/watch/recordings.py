"""What the watcher's processes wrote of jobs, kept to be judged again without the jobs.

recordings/KIND.jsonl.gz has a line for each job. Its "files" are those of the job's folder, as
harness/watch/inject/preload/event_file.h and harness/watch/read/hook_events.h have them, with four
changes: times are whole microseconds, each told from the one before; threads are told from the
process; paths in this checkout begin with CHECKOUT; and hashes have no samples of the parameters,
which only ranks on unlike hardware need. The rest says of what and by what it was recorded.
"""

import functools
import gzip
import json
import os
import struct
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "recordings"
ROOT, CHECKOUT = str(HERE.parents[2]), "@checkout"
IS_ON = "GRADSYNC_RECORD" in os.environ  # to record what is missing or has changed
HOW = "GRADSYNC_RECORD=1 with the same test records what is missing or has changed"
HEADER_BYTES = 1024
HEADER = struct.Struct("<8s3q4i64s256sqi")
# written, kind, start, end, bytes, object, thread, count, name, detail
RECORD = struct.Struct("<2I6q40s32s")
START, END, THREAD, COUNT = 2, 3, 6, 7


def text_of(field):
    return field.rstrip(b"\0").decode("latin-1")


class Times:
    """Converts times to microseconds since the last one, and back."""

    def __init__(self):
        self.last = 0

    def told(self, start, end):
        """Returns both in nanoseconds as differences; an end of 0 is not known."""
        start, end = start // 1000, end // 1000
        told = [start - self.last, end - start if end else None]
        self.last = start
        return told

    def of(self, told):
        self.last += told[0]
        return 1000 * self.last, 1000 * (self.last + told[1]) if told[1] is not None else 0


def packed_native(data):
    header = [text_of(f) if isinstance(f, bytes) else f for f in HEADER.unpack_from(data)]
    pid, claimed = header[1:3]
    times, rows = Times(), []
    for row in RECORD.iter_unpack(data[HEADER_BYTES : HEADER_BYTES + claimed * RECORD.size]):
        row = list(row)
        row[START : END + 1] = times.told(row[START], row[END])
        row[THREAD] -= pid
        row[COUNT] -= row[COUNT] % 1000 if row[COUNT] > 1000 else 0  # of a collective, nanoseconds
        rows.append([text_of(f) if isinstance(f, bytes) else f for f in row])
    # By columns, whose values are alike.
    return {"header": header, "columns": [list(column) for column in zip(*rows, strict=True)]}


def unpacked_native(packed):
    header = [f.encode("latin-1") if isinstance(f, str) else f for f in packed["header"]]
    times, rows = Times(), []
    for row in map(list, zip(*packed["columns"], strict=True)):
        row[START : END + 1] = times.of(row[START : END + 1])
        row[THREAD] += header[1]
        rows.append(RECORD.pack(*(f.encode("latin-1") if isinstance(f, str) else f for f in row)))
    return HEADER.pack(*header).ljust(HEADER_BYTES, b"\0") + b"".join(rows)


def packed_hook(text):
    pid, times, lines, told = 0, Times(), [], []
    for line in map(json.loads, text.replace(ROOT, CHECKOUT).splitlines()):
        pid = line.get("pid", pid)
        if "start_ns" in line:
            told.append(times.told(line.pop("start_ns"), line.pop("end_ns")))
            line["thread"] -= pid
        if line["kind"] == "hashes":
            line["samples"] = {}
        lines.append(line)
    return {"lines": lines, "times": told}


def unpacked_hook(packed):
    pid, times, told, lines = 0, Times(), iter(packed["times"]), []
    for line in map(dict, packed["lines"]):
        pid = line.get("pid", pid)
        if "thread" in line:
            line["start_ns"], line["end_ns"] = times.of(next(told))
            line["thread"] += pid
        lines.append(json.dumps(line) + "\n")
    return "".join(lines).replace(CHECKOUT, ROOT)


def packed_folder(folder):
    packed = {}
    for file in sorted(folder.iterdir()):
        if file.suffix == ".events":
            packed[file.name] = packed_native(file.read_bytes())
        else:
            packed[file.name] = packed_hook(file.read_text())
    return packed


def unpack(recording, folder):
    """Writes the files of a recording into a new folder."""
    folder.mkdir()
    for name, packed in recording["files"].items():
        if name.endswith(".events"):
            (folder / name).write_bytes(unpacked_native(packed))
        else:
            (folder / name).write_text(unpacked_hook(packed))


@functools.cache
def recorded(kind):
    """Returns the recordings of a kind of jobs, by name."""
    file = FOLDER / f"{kind}.jsonl.gz"
    if not file.exists():
        return {}
    lines = map(json.loads, gzip.decompress(file.read_bytes()).splitlines())
    return {line["job"]: line for line in lines}


def record(kind, job, folder, **more):
    """Keeps what the watcher wrote into `folder`, in place of what was kept of that job."""
    recordings = recorded(kind) | {job: {"job": job, **more, "files": packed_folder(folder)}}
    lines = [json.dumps(recordings[name], separators=(",", ":")) for name in sorted(recordings)]
    FOLDER.mkdir(exist_ok=True)
    data = gzip.compress("\n".join(lines).encode(), mtime=0)
    (FOLDER / f"{kind}.jsonl.gz").write_bytes(data)
    recorded.cache_clear()
