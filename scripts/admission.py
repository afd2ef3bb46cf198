#!/usr/bin/env python3
"""What compare-admission.sh sends, and what came of it.

    admission.py calibration FILE N           N requests of 10 ms each in the mean
    admission.py overhead N SERVERS CSV_GZ... what a server takes for one of them beside, in ms
    admission.py trace FILE LOAD RATIO SECONDS SEED OVERHEAD_MS ARRIVALS MEDIA
                                              a trace; RATIO of it has high priority
    admission.py summary DIRECTORY            its runs.csv and what that names: points.csv,
                                              plots.csv and summary.csv

The objects are those of table 2 of Chen and Mohapatra (2002), with the times of its table 1.
All times are longer by one factor, so that their mean is that of the paper's section 4.1.
"""

import csv
import gzip
import math
import random
import sys

SERVERS = 4
MEAN_SERVICE_MS = 18

# Table 1, in ms and bytes. The share of small files in memory is not printed.
STATIC_MS, DYNAMIC_MS, SEEK_MS, DISK_BYTES_PER_MS = 1, 10, 1, 10_000
CACHED_BYTES_MAX, CACHE_HITS = 32 * 1024, 0.8

# Table 2: share of the requests in per cent, mean size in KB, standard deviation over the mean,
# whether it is dynamic. The table contradicts itself on audio and video (MEDIA): with the shares
# that it prints they would make 12 and 26% of the traffic, where it prints 1.6 and 6.7.
HTML, IMAGE = (19.2, 5.76, 1.90, False), (68.8, 4.98, 2.46, False)
DYNAMIC, OTHER = (3.9, 3.84, 1.33, True), (7.8, 19.0, 7.90, False)
TYPES = {
    media: (HTML, IMAGE, (audio, 579.9, 1.76, False), (video, 2503.9, 1.56, False), DYNAMIC, OTHER)
    for media, audio, video in (("requests", 0.2, 0.1), ("traffic", 0.02, 0.02))
}

# A source of requests alternates between silence and bursts, both of heavy-tailed lengths.
# The paper's log has some 2 requests a second by day, and each source stands for one log.
SOURCE_PER_S, SOURCE_IN_BURST_PER_S = 2, 10
BURST_S, TAIL = 1, 1.5
SILENCE_S = BURST_S * (SOURCE_IN_BURST_PER_S / SOURCE_PER_S - 1)
# The time that sources run before time 0, so that they are not all silent then.
SETTLE_S = 60

# The reasons of the access log for what is refused, and for what the time-out ends.
REFUSED = {"early_discard", "queue_full", "displaced", "max_requests"}
ABORTED = {"queue_timeout", "uplink_timeout", "route_timeout"}
IN_TIME_MS = 2000
# The share of a run's requests that may fail otherwise.
FAILED_MAX = 0.01
# The part of a run, at its start, that is left out, as in the simulation.
WARM_UP = 0.1


def lognormal(kind):
    """Returns the parameters of a type's sizes in bytes."""
    _, mean_kb, cov, _ = kind
    variance = math.log(1 + cov * cov)
    return math.log(mean_kb * 1024) - variance / 2, math.sqrt(variance)


def mean_service_ms(types):
    """Returns the mean time of table 1 for the requests of table 2."""

    def below(z):
        return (1 + math.erf(z / math.sqrt(2))) / 2

    total = 0.0
    for kind in types:
        share, mean_kb, _, dynamic = kind
        mu, sigma = lognormal(kind)
        z = (math.log(CACHED_BYTES_MAX) - mu) / sigma
        read = 1 - CACHE_HITS * below(z)
        read_bytes = mean_kb * 1024 * (1 - CACHE_HITS * below(z - sigma))
        disk_ms = read * SEEK_MS + read_bytes / DISK_BYTES_PER_MS
        total += share * (STATIC_MS + (DYNAMIC_MS if dynamic else disk_ms))
    return total / sum(kind[0] for kind in types)


def tasks(dice, types):
    """Draws tasks, each as its bytes and its time in ms."""
    stretch = MEAN_SERVICE_MS / mean_service_ms(types)
    shares = [kind[0] for kind in types]
    parameters = {kind: lognormal(kind) for kind in types}
    while True:
        for kind in dice.choices(types, shares, k=1000):
            size = max(1, int(dice.lognormvariate(*parameters[kind])))
            ms = STATIC_MS
            if kind[3]:
                ms += DYNAMIC_MS
            elif size >= CACHED_BYTES_MAX or dice.random() >= CACHE_HITS:
                ms += SEEK_MS + size / DISK_BYTES_PER_MS
            yield size, ms * stretch


def pareto(dice, mean):
    """Draws a time of this mean from a Pareto distribution."""
    return mean * (TAIL - 1) / TAIL * dice.paretovariate(TAIL)


def bursts(dice, per_s, seconds):
    """Returns the arrivals of as many sources as make this rate."""
    found = []
    for _ in range(max(1, round(per_s / SOURCE_PER_S))):
        at = -SETTLE_S * (1 + dice.random())
        while at < seconds:
            at += pareto(dice, SILENCE_S)
            ends = at + pareto(dice, BURST_S)
            while at < min(ends, seconds):
                if at >= 0:
                    found.append(at)
                at += dice.expovariate(SOURCE_IN_BURST_PER_S)
            at = ends
    return sorted(found)


def poisson(dice, per_s, seconds):
    """Returns arrivals without bursts."""
    found, at = [], dice.expovariate(per_s)
    while at < seconds:
        found.append(at)
        at += dice.expovariate(per_s)
    return found


def recorded(log, dice, per_s, seconds):
    """Returns the arrivals of a log (t_s,bytes,status,url), from as many places of it at once
    as make this rate: the paper's independent regenerators. Whole seconds are filled evenly."""
    with gzip.open(log, "rt", newline="") as source:
        stamps = sorted(float(row["t_s"]) for row in csv.DictReader(source))
    span = stamps[-1] - stamps[0]
    if span <= seconds:
        sys.exit(f"{log} is shorter than {seconds} s")
    found = []
    for _ in range(max(1, round(per_s * span / len(stamps)))):
        begins = stamps[0] + dice.random() * (span - seconds)
        ours = (stamp - begins for stamp in stamps if begins <= stamp < begins + seconds)
        found.extend(min(at + dice.random(), seconds) for at in ours)
    return sorted(found)


def trace(file, load, ratio, seconds, seed, overhead_ms, arrivals, media):
    """Writes a trace. Its length is such that its work is exactly `load` of what the servers can
    do, whatever was drawn."""
    load, ratio, seconds = float(load), float(ratio), float(seconds)
    # Tasks and classes are drawn apart: neither another load nor another ratio changes them.
    sources = (random.Random(f"{seed} {what}") for what in ("at", "task", "class"))
    dice, of_tasks, of_classes = sources
    per_s = load * SERVERS * 1000 / MEAN_SERVICE_MS
    if arrivals == "bursts":
        times = bursts(dice, per_s, seconds)
    elif arrivals == "poisson":
        times = poisson(dice, per_s, seconds)
    else:
        times = recorded(arrivals, dice, per_s, seconds)
    drawn = tasks(of_tasks, TYPES[media])
    work = [next(drawn) for _ in times]
    scale = sum(ms for _, ms in work) / 1000 / SERVERS / load / seconds
    with gzip.open(file, "wt", newline="") as out:
        out.write("t_s,bytes,path\n")
        for number, (at, (size, ms)) in enumerate(zip(times, work)):
            priority = "high" if of_classes.random() < ratio else "low"
            delay = max(ms - float(overhead_ms), 0.001)
            path = f"/size/{size}/{number}.{priority}?delay={delay:.3f}ms"
            out.write(f"{at * scale:.4f},{size},{path}\n")


def calibration(file, count):
    """Writes requests of 5 to 15 ms, which no clock's tick favours."""
    dice = random.Random(1)
    with gzip.open(file, "wt", newline="") as out:
        out.write("t_s,bytes,path\n")
        for number in range(int(count)):
            ms = 5 + 10 * dice.random()
            out.write(f"0,5000,/size/5000/{number}.high?delay={ms:.3f}ms\n")


def overhead(count, servers, *files):
    """Prints what a server that is never idle takes for a request beside its delay."""
    found = []
    for file in files:
        asked_ms, ends_ms, rows = 0.0, 0.0, 0
        with gzip.open(file, "rt", newline="") as source:
            for row in csv.DictReader(source):
                if row["error"]:
                    sys.exit(f"{file}: a request has failed: {row['error']}")
                asked_ms += float(row["path"].split("delay=")[1].removesuffix("ms"))
                ends_ms = max(ends_ms, float(row["start_s"]) * 1000 + float(row["response_ms"]))
                rows += 1
        if rows != int(count):
            sys.exit(f"{file}: {rows} of {count} requests")
        found.append((ends_ms * int(servers) - asked_ms) / rows)
    print(f"{max(0.0, sum(found) / len(found)):.3f}")


class Fates:
    """What became of requests."""

    def __init__(self):
        self.came = self.refused = self.aborted = self.failed = self.in_time = 0
        self.times_ms = []

    def add(self, response_ms, error, reason):
        """Counts a request, by what its client saw and by what the access log says."""
        self.came += 1
        if not error:
            self.times_ms.append(response_ms)
            self.in_time += response_ms <= IN_TIME_MS
        elif reason in REFUSED:
            self.refused += 1
        elif reason in ABORTED:
            self.aborted += 1
        else:
            self.failed += 1

    def share(self, what):
        """Returns the share of those that came."""
        return getattr(self, what) / self.came if self.came else math.nan

    def mean_s(self):
        """Returns the mean response time of those served."""
        return sum(self.times_ms) / len(self.times_ms) / 1000 if self.times_ms else math.nan

    def p95_s(self):
        """Returns the 95th percentile of it, by nearest rank."""
        rank = math.ceil(0.95 * len(self.times_ms))
        return sorted(self.times_ms)[rank - 1] / 1000 if rank else math.nan


def pooled(fates):
    """Returns the fates of several points together."""
    whole = Fates()
    for own in fates:
        for what in ("came", "refused", "aborted", "failed", "in_time"):
            setattr(whole, what, getattr(whole, what) + getattr(own, what))
        whole.times_ms += own.times_ms
    return whole


def read_run(name):
    """Returns the fates of a run by priority: those of NAME.csv.gz, with reasons of NAME.log."""
    reasons = {}
    with open(f"{name}.log", encoding="ascii") as lines:
        for line in lines:
            path, reason = line.split()
            reasons[path] = reason
    with gzip.open(f"{name}.csv.gz", "rt", newline="") as source:
        rows = list(csv.DictReader(source))
    fates = {"high": Fates(), "low": Fates()}
    begins_s = WARM_UP * max(float(row["t_s"]) for row in rows)
    for row in rows:
        path = row["path"].split("?")[0]
        if float(row["t_s"]) >= begins_s:
            own = fates[path.rsplit(".", 1)[1]]
            own.add(float(row["response_ms"]), row["error"], reasons.get(path))
    whole = pooled(fates.values())
    if whole.share("failed") > FAILED_MAX:
        sys.exit(f"{name}: {whole.failed} of {whole.came} requests failed, and no reason is known")
    return fates


class Points:
    """The points of one figure: the fates by system, load and priority."""

    def __init__(self):
        self.of = {}

    def systems(self):
        """Returns the systems, in the order in which they came."""
        return list(dict.fromkeys(system for system, _ in self.of))

    def loads(self):
        """Returns the loads, from the lowest."""
        return sorted({load for _, load in self.of})

    def share(self, system, load, priority, what):
        """Returns a share at a point; there may be none."""
        fates = self.of.get((system, load))
        return fates[priority].share(what) if fates else math.nan

    def up_to_capacity(self, priority, systems=None, loads=None):
        """Returns the fates of the points up to the capacity, as one; of all systems and loads
        unless some are named."""

        def counts(system, load):
            is_named = systems is None or system in systems
            return is_named and load <= 1 and (loads is None or load in loads)

        return pooled(fates[priority] for place, fates in self.of.items() if counts(*place))


def rejection(points):
    """Returns what figure 12's text says, from the systems without a time-out."""
    over = [load for load in points.loads() if load > 1]

    def slope(priority):
        ends = (points.share("unprotected", load, priority, "refused") for load in over)
        first, *_, last = ends
        return last - first

    def most(system):
        return max(points.share(system, load, "high", "refused") for load in points.loads())

    alike = capacity = math.nan
    if len(over) > 1 and slope("low"):
        alike = slope("high") / slope("low")
    if over:
        whole = pooled(points.of[("unprotected", over[-1])].values())
        capacity = over[-1] * len(whole.times_ms) / whole.came
    return {
        "rejection slope of high over low": alike,
        "early discard keeps high in": float(most("discarding") < most("unprotected")),
        "most of high refused: unprotected": most("unprotected"),
        "most of high refused: discarding": most("discarding"),
        "most of high refused: displacing": most("displacing"),
        # No row: it should be about 1, or the servers are not what the load counts on.
        "capacity reached": capacity,
    }


def timeouts(points):
    """Returns what figure 13's text says, of the points up to the capacity."""
    high = [points.up_to_capacity("high", systems=[system]) for system in points.systems()]
    loads = [load for load in points.loads() if load <= 1]
    below, last = loads[:-1], loads[-1:]

    def aborted(priority, of_loads):
        return points.up_to_capacity(priority, loads=of_loads).share("aborted")

    most_below = max((aborted("high", [load]) for load in below), default=math.nan)
    falls = aborted("high", last) / most_below if most_below else math.nan
    low_below, low_last = aborted("low", below), aborted("low", last)
    return {
        "high within 2 s": min(own.share("in_time") for own in high),
        "high refused": max(own.share("refused") for own in high),
        "high aborted": max(own.share("aborted") for own in high),
        "least of high aborted by ratio": min(own.share("aborted") for own in high),
        "high aborted at capacity over below": falls,
        "low aborted below capacity": low_below,
        "low aborted at capacity": low_last,
        "low aborted grows": float(low_last > low_below),
    }


def write(file, heading, rows):
    """Writes a CSV."""
    with open(file, "w", encoding="ascii", newline="") as out:
        table = csv.writer(out, lineterminator="\n")
        table.writerow(heading)
        table.writerows(rows)


POINTS = "figure system load priority requests mean_s p95_s refused aborted within_2s failed".split()


def points_of(figures):
    """Returns all points as lines of a table."""
    for figure, points in figures.items():
        for (system, load), fates in points.of.items():
            for priority, own in fates.items():
                shares = (own.share(what) for what in ("refused", "aborted", "in_time", "failed"))
                numbers = (own.mean_s(), own.p95_s(), *shares)
                place = (figure, system, load, priority, own.came)
                yield [*place, *(f"{number:.5f}" for number in numbers)]


def lines(figures):
    """Returns the points of the plots: plot, line, x, y, with y in per cent."""
    for system, load in figures["12"].of:
        for priority in ("high", "low"):
            refused = figures["12"].share(system, load, priority, "refused")
            yield "figure-12-sockets", f"{system}: {priority}", load, 100 * refused
    for system, load in figures["13"].of:
        # As in the simulation: all ratios at once would be a thicket.
        if system in ("0.5", "0.9"):
            for what, word in (("aborted", "aborted"), ("refused", "rejected")):
                for priority in ("high", "low"):
                    share = figures["13"].share(system, load, priority, what)
                    yield "figure-13-sockets", f"{system}: {priority} {word}", load, 100 * share


def summary(directory):
    """Reads all runs, and writes their points, the plots and the summary."""
    figures = {"12": Points(), "13": Points()}
    with open(f"{directory}/runs.csv", encoding="ascii", newline="") as source:
        for row in csv.DictReader(source):
            place = (row["system"], float(row["load"]))
            figures[row["figure"]].of[place] = read_run(f"{directory}/{row['name']}")
    write(f"{directory}/points.csv", POINTS, points_of(figures))
    shown = ([*row[:3], f"{row[3]:.4f}"] for row in lines(figures) if math.isfinite(row[3]))
    write(f"{directory}/plots.csv", ["plot", "line", "x", "y"], shown)
    values = {}
    if figures["12"].of:
        values |= rejection(figures["12"])
    if figures["13"].of:
        values |= timeouts(figures["13"])
    found = ([name, f"{value:.6f}"] for name, value in values.items())
    write(f"{directory}/summary.csv", ["name", "value"], found)


COMMANDS = {"calibration": calibration, "overhead": overhead, "trace": trace, "summary": summary}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    COMMANDS[sys.argv[1]](*sys.argv[2:])
