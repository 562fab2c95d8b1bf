"""Hosts on one machine: each has a network, a name, mounts and processes of its own.

A host's own /etc/hosts is as Debian's installer writes it, with its name at 127.0.1.1; the others'
names are at their addresses on a bridge between them. All of it is held by a process for each host
and one for the bridge, and is gone with them. Needs root, iproute2 and util-linux.
"""

import subprocess
from pathlib import Path

NETWORK = "10.77.0"
SWITCH_ADDRESS = f"{NETWORK}.254"  # of who sits at the switch and is on no host


def run(*command):
    subprocess.run(command, check=True, capture_output=True, text=True)


class Holder:
    """A process that keeps namespaces up; `pid` is inside of them."""

    def __init__(self, *flags, script="true"):
        alone = ["setpriv", "--pdeathsig", "KILL"]  # it goes with the test, however that ends
        hold = [*alone, "unshare", "--fork", "--kill-child", *flags, "sh", "-ec"]
        self.process = subprocess.Popen(
            [*hold, f"{script}\necho up\nexec sleep infinity"], stdout=subprocess.PIPE, text=True
        )
        if self.process.stdout.readline() != "up\n":
            raise RuntimeError(f"no host was made: {' '.join(hold)}")
        process = self.process.pid
        self.pid = int(Path(f"/proc/{process}/task/{process}/children").read_text())

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Hosts:
    def __init__(self, count, place):
        self.place = place
        self.spaces = ["--net", "--uts", "--mount", "--pid"]
        self.names = [f"host{number}" for number in range(count)]
        self.switch = Holder("--net")
        self.holders = []
        self.in_switch("ip", "link", "add", "bridge", "type", "bridge")
        self.in_switch("ip", "link", "set", "bridge", "up")
        self.in_switch("ip", "addr", "add", f"{SWITCH_ADDRESS}/24", "dev", "bridge")
        self.in_switch("ip", "link", "set", "lo", "up")
        for number in range(count):
            self.holders.append(self.add(number))

    def in_switch(self, *command):
        run(*self.at_switch(*command))

    def add(self, number):
        known = self.place / f"hosts_of_{number}"
        known.write_text("127.0.0.1 localhost\n" + "".join(map(self.known_to(number), self.names)))
        script = f"hostname host{number}\nmount --bind {known} /etc/hosts"
        host = Holder(*self.spaces, "--mount-proc", script=script)
        link = f"to{number}"
        peer = ("type", "veth", "peer", "name", "eth0", "netns", str(host.pid))
        self.in_switch("ip", "link", "add", link, "master", "bridge", *peer)
        self.in_switch("ip", "link", "set", link, "up")
        inside = ("nsenter", "--target", str(host.pid), "--net", "ip")
        run(*inside, "addr", "add", f"{self.address(number)}/24", "dev", "eth0")
        run(*inside, "link", "set", "eth0", "up")
        run(*inside, "link", "set", "lo", "up")
        return host

    def known_to(self, number):
        def line(name):
            own = name == self.names[number]
            address = "127.0.1.1" if own else self.address(self.names.index(name))
            return f"{address} {name}\n"

        return line

    def command(self, number, *command):
        """Returns the command that runs another one on a host, on a core of its own where there
        are as many."""
        enter = ("nsenter", "--target", str(self.holders[number].pid))
        return (
            *enter,
            *self.spaces,
            f"--wd={self.place}",
            "taskset",
            "--cpu-list",
            str(number % 2),
            *command,
        )

    def at_switch(self, *command):
        """Returns the command that runs another one at the switch: with its network, and with the
        processes, names and files of who calls."""
        return ("nsenter", "--target", str(self.switch.pid), "--net", *command)

    def address(self, number):
        return f"{NETWORK}.{number + 1}"

    def link(self, number, state):
        """Takes the cable of a host out ("down"), or puts it in again ("up")."""
        self.in_switch("ip", "link", "set", f"to{number}", state)

    def end(self):
        for holder in (*self.holders, self.switch):
            holder.end()
