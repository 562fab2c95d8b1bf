"""The five numbers of a watched training that are drawn over time, as they are logged.

The program makes them (harness/watch/judge/series.h), for Prometheus and TensorBoard as for
callbacks: here they are only named. What is not known is absent, never 0.
"""

PREFIX = "gradsync/"
NAMES = ("steps", "exposed_s", "synchronization_share", "excess_bytes", "latest_rank")


def known(said):
    """Returns those that are known, as {"gradsync/steps": 6, ...}.

    `said`: JSON as in results/schema/watch.schema.json, or nothing.
    """
    series = said.get("series", {})
    return {PREFIX + name: series[name] for name in NAMES if series.get(name) is not None}
