#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Finds the turns of BFQ that cost a disk no more than is allowed.

With short turns light servers wait less. They cost a disk that seeks much of
its throughput, and a disk without seeks nothing. So a load that lasts is
tried: with BFQ's own settings, whose throughput is the reference, and then
with turns from the shortest on. The first ones that cost no more than allowed
are kept, or else BFQ's own settings. Later the disk is tried again, and sooner
if other servers use it, or if it does less than turns may cost. A load that
pauses may be another one afterwards, so its trial is given up, and after a
long pause the disk is tried as one that was never tried.
"""

import collections.abc
import dataclasses

#: Turns in seconds, from the shortest on.
TURNS_S = (0.002, 0.012, 0.025, 0.05, 0.1)

#: The largest share of the throughput that turns may cost, by
#: ``[diskplacer_weights] prefer``.
THROUGHPUT = 'throughput'
BALANCED = 'balanced'
LATENCY = 'latency'
ALLOWED = {THROUGHPUT: 0.02, BALANCED: 0.2, LATENCY: 0.6}

# A load is tried once it has lasted this long.
_STEADY_S = 20.0

# Seconds of a step. In the first of them there are requests of the one before,
# so it is not counted. An interval may be a little short.
_STEP_S = 2.9
_SETTLE_S = 0.9

# The minimal share of time that a disk at its limit is busy, and the minimal
# number of its requests, on average, with which one that was there stays so.
_BUSY = 0.9
_QUEUE = 1.0

# The next trial begins once the throughput has been less than the reference
# for this long, by more than turns may cost and by more than this part. By
# less it varies without a reason.
_LOW_S = 5.0
_VARIES = 0.1

# A trial ends without a result once nothing was counted for this long.
_PAUSE_S = 10.0

# The result of a trial is of another load once nothing was counted for this
# long. Loads that come and go more often than that are taken for the same.
_FORGET_S = 300.0

# Seconds until the next trial: after one with another result than before, and
# at most.
_KEPT_S = 60.0
_MAX_KEPT_S = 960.0

# Seconds between trials, at least. They are more after a trial that cost much:
# the throughput that is lost in trials is this part of what turns may cost.
_MIN_REST_S = 60.0
_PART_OF_ALLOWED = 0.5


@dataclasses.dataclass(frozen=True)
class Trial:
    """The state of a disk whose active servers differ in weight.

    ``choice`` is the index of the turns in force among those that are tried,
    None for BFQ's own settings; ``before`` is what was in force before the
    trial. ``left_s`` is the time until the next trial, None during one, and
    ``kept_s`` is how long the last choice is kept, unless the disk rests
    longer. ``counted`` are the seconds and the throughput of each interval of
    the present step, ``reference`` is the throughput when BFQ's own settings
    were tried last, in bytes/s, None before. ``paused_s`` is the time since
    the last interval that was counted. ``lost`` is the share of the reference
    that the kept choice cost when it was tried, None before. ``servers`` are
    those that used the disk when the reference of the last trial was measured,
    None before, and ``reference_servers`` are those of the present trial.
    ``rest_s`` is the time until the next trial may begin. ``low_s`` is how
    long the throughput has been less than the reference by more than turns may
    cost. ``at_limit`` is true if the disk was at its limit in the present
    trial; its first interval does not count, as it has requests of the time
    before. ``below_limit`` is true if it was in use in the trial, but not at
    its limit.
    """

    choice: int | None
    before: int | None = None
    left_s: float | None = _STEADY_S
    kept_s: float = _KEPT_S
    counted: tuple[tuple[float, float], ...] = ()
    reference: float | None = None
    paused_s: float = 0.0
    lost: float | None = None
    servers: frozenset[str] | None = None
    reference_servers: frozenset[str] | None = None
    rest_s: float = 0.0
    low_s: float = 0.0
    at_limit: bool = False
    below_limit: bool = False


def is_counted(
    throughput: float, busy: float, queue: float, has_trial: bool
) -> bool:
    """Return whether a disk was at its limit in an interval.

    Below it turns help nobody, and an interval tells nothing of their price.
    With a trial, requests that wait are enough: BFQ keeps the disk idle for a
    server at times, and a host without processors to spare keeps it so, too.
    Its turns would else be set and restored without ever being tried. A disk
    that has completed nothing hangs.

    :param busy: share of the time with requests in the disk.
    :param queue: mean number of requests, those that wait in BFQ included.
    :param has_trial: the settings of the disk are those of a trial.
    """
    at_limit = busy >= _BUSY or (has_trial and queue >= _QUEUE)
    return at_limit and throughput > 0


def step(
    trial: Trial,
    throughput: float,
    seconds: float,
    turns_s: collections.abc.Sequence[float],
    allowed: float,
    servers: frozenset[str],
    is_light: bool = False,
) -> Trial:
    """Return the state after an interval that is counted.

    See :func:`is_counted`, and :func:`pause` for other intervals. Untried
    turns help heavy servers, which divide the throughput. Light ones may wait
    longer with them, so a disk that was never tried is tried at once.

    :param throughput: bytes/s of all servers in the interval.
    :param turns_s: the turns that can be tried, from the shortest on.
    :param allowed: share of the throughput that turns may cost.
    :param servers: those that use the disk, see ``presence``.
    :param is_light: those with the highest weight are light.
    """
    if trial.left_s is not None:
        left_s = trial.left_s - seconds
        rest_s = max(0.0, trial.rest_s - seconds)
        is_low = _lost(trial, throughput) > max(allowed, _VARIES)
        low_s = trial.low_s + seconds if is_low else 0.0
        is_due = left_s <= 0 or (
            not rest_s
            and (
                trial.servers not in (None, servers)
                or low_s >= _LOW_S
                or (is_light and trial.lost is None)
            )
        )
        if not is_due:
            return dataclasses.replace(
                trial,
                left_s=left_s,
                rest_s=rest_s,
                low_s=low_s,
                paused_s=0.0,
            )
        return dataclasses.replace(
            trial,
            choice=None,
            before=trial.choice,
            left_s=None,
            paused_s=0.0,
            rest_s=0.0,
            low_s=0.0,
        )
    trial = dataclasses.replace(
        trial,
        counted=(*trial.counted, (seconds, throughput)),
        at_limit=trial.at_limit or bool(trial.counted),
        paused_s=0.0,
        rest_s=trial.rest_s
        + seconds * _lost(trial, throughput) / (_PART_OF_ALLOWED * allowed),
    )
    counted = trial.counted
    if sum(length for length, _ in counted) < _STEP_S:
        return trial
    mean = _mean(counted)
    choice = trial.choice
    if trial.reference is None or choice is None:
        return dataclasses.replace(
            trial,
            choice=0,
            counted=(),
            reference=mean,
            reference_servers=servers,
        )
    lost = _lost(trial, mean)
    if lost <= allowed:
        return _keep(trial, choice, lost, trial.reference_servers)
    if choice + 1 < len(turns_s):
        return dataclasses.replace(trial, choice=choice + 1, counted=())
    return _keep(trial, None, 0.0, trial.reference_servers)


def pause(
    trial: Trial,
    seconds: float,
    at_limit: bool = False,
    below_limit: bool = False,
) -> Trial:
    """Return the state after an interval that is not counted.

    After ten seconds, what was in force before the trial is again, and for as
    long as it was; but BFQ's own settings stay if they were being tried, and
    the disk was in use, but never at its limit: it may be only with turns,
    which then do harm. After five minutes the next trial is that of a new
    load.

    :param at_limit: the disk was at its limit, and is not counted for another
        reason.
    :param below_limit: the disk was in use, but not at its limit.
    """
    if trial.left_s is None:
        trial = dataclasses.replace(
            trial,
            at_limit=trial.at_limit or at_limit,
            below_limit=trial.below_limit or below_limit,
        )
    paused_s = trial.paused_s + seconds
    if paused_s < (_FORGET_S if trial.left_s is not None else _PAUSE_S):
        return dataclasses.replace(trial, paused_s=paused_s)
    if trial.left_s is not None:
        return Trial(
            choice=trial.choice, reference=trial.reference, lost=trial.lost
        )
    if trial.choice is None and trial.below_limit and not trial.at_limit:
        return _keep(trial, None, 0.0, trial.servers)
    rest_s = max(_MIN_REST_S, trial.rest_s)
    return Trial(
        choice=trial.before,
        left_s=max(trial.kept_s, rest_s),
        kept_s=trial.kept_s,
        reference=trial.reference,
        lost=trial.lost,
        servers=trial.servers,
        rest_s=rest_s,
    )


def _lost(trial: Trial, throughput: float) -> float:
    """Return the share of the reference that the turns in force cost.

    BFQ's own settings cost nothing.
    """
    if trial.reference is None or trial.choice is None:
        return 0.0
    return max(0.0, 1.0 - throughput / trial.reference)


def _mean(counted: collections.abc.Sequence[tuple[float, float]]) -> float:
    """Return the throughput of a step, of its last interval at least."""
    began, moved, measured = 0.0, 0.0, 0.0
    for number, (seconds, throughput) in enumerate(counted, 1):
        if began >= _SETTLE_S or number == len(counted):
            moved += seconds * throughput
            measured += seconds
        began += seconds
    return moved / measured


def _keep(
    trial: Trial,
    choice: int | None,
    lost: float,
    servers: frozenset[str] | None,
) -> Trial:
    """Return the state at the end of a trial.

    The next one is later if this one has confirmed the one before.
    """
    again = choice == trial.before
    kept_s = min(2 * trial.kept_s, _MAX_KEPT_S) if again else _KEPT_S
    rest_s = max(_MIN_REST_S, trial.rest_s)
    return Trial(
        choice=choice,
        left_s=max(kept_s, rest_s),
        kept_s=kept_s,
        reference=trial.reference,
        lost=lost,
        servers=servers,
        rest_s=rest_s,
    )
