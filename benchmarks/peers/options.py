"""Options that say what both sides of a comparison do, and the Work that they make. No torch."""

import argparse
import dataclasses
from pathlib import Path

import launches
import network
import summary
from wrappers import STRATEGIES, WRAPPERS

ROOT = Path(__file__).resolve().parents[2]


def at_least(least, most=10**6):
    def count(text):
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"got '{text}', expected {least} to {most}")
        return int(text)

    return count


def make_parser(description):
    return argparse.ArgumentParser(
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_work(parser, **defaults):
    """`defaults`: of options whose default is another one than in compare.py."""
    add = parser.add_argument
    add("--topology", default="2x1_1gbit", help="a name or a file (default: %(default)s)")
    add("--model", choices=launches.BERT, default="bert_mini")
    add("--wrapper", choices=WRAPPERS, default="ddp", help="default: %(default)s")
    add(
        "--reshard-after-forward",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="fsdp: free parameters between forward and backward (default), or keep them",
    )
    add("--strategy", choices=STRATEGIES, action="append", help="repeatable (default: all)")
    add("--accumulation-steps", type=at_least(1), default=4)
    add("--micro-batch-size", type=at_least(1), default=16)
    add("--sequence-length", type=at_least(1, 512), default=64)
    add("--steps", type=at_least(1), default=6, help="per strategy, round and launch")
    add("--warmup-steps", type=at_least(1), default=2)
    add("--rounds", type=at_least(1), default=2)
    add_launches(parser)
    add("--seed", type=at_least(0), default=42)
    add("--timeout-s", type=at_least(1), default=60, help="of a collective")
    add(
        "--attention",
        choices=["eager", "sdpa"],
        default="eager",
        help="transformers' implementation; eager does the arithmetic ours does",
    )
    parser.set_defaults(**defaults)


def add_launches(parser):
    add = parser.add_argument
    add("--launches", type=at_least(1, summary.MOST_LAUNCHES), default=4)
    add("--launch-timeout-s", type=at_least(1), default=1800)
    add("--program", default=str(ROOT / "build" / "release" / "gradsync"))
    add("--json", type=Path, metavar="FILE", help="writes all that was measured there")


def complete(parser, options, **known):
    """Gives the wrapper's own values to options that were not named, and refuses others. `known`:
    for an option its values unless named, and all that there are."""
    for option, (unless_named, all_known) in known.items():
        names = tuple(getattr(options, option) or unless_named)
        for name in names:
            if name not in all_known:
                parser.error(f"{options.wrapper}: got '{name}', expected {', '.join(all_known)}")
        setattr(options, option, names)


def topology_file(name):
    shipped = ROOT / "benchmarks" / "topologies" / f"{name}.json"
    return str(shipped if shipped.exists() else Path(name).resolve())


def work_of(options):
    """Errors: network.TopologyError."""
    fields = {field.name for field in dataclasses.fields(launches.Work)}
    given = {key: value for key, value in vars(options).items() if key in fields}
    given["topology"] = topology_file(options.topology)
    network.read_topology(given["topology"])
    return launches.Work(**given, strategies=options.strategy)
