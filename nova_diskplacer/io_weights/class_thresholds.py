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

"""Penalty curves: the use of a disk at which a consumer loses each class."""

import collections.abc

from nova_diskplacer import exception

#: The largest threshold, in scales; recovery from it takes an idle server
#: more than half an hour.
MAX_SCALES = 1024.0


def linear(classes: int) -> list[float]:
    """Return a threshold per scale (P4 §IV-D)."""
    return [float(lost) for lost in range(1, classes + 1)]


def logarithmic(classes: int) -> list[float]:
    """Return a threshold per doubling beyond the first scale (P4 §IV-D).

    The paper's lg is read as the logarithm to base 2: to base 10 the lowest
    of 10 classes, at its scale of 128 MB, would take 10^9 scales, 128 PB.
    """
    return [2.0**lost for lost in range(1, classes + 1)]


CURVES: dict[str, collections.abc.Callable[[int], list[float]]] = {
    'linear': linear,
    'logarithmic': logarithmic,
}


def thresholds(curve: str, classes: int, lowest: int) -> tuple[float, ...]:
    """Return the use in scales at which each class is lost.

    A consumer's class is ``classes`` minus the number of thresholds that its
    use reaches. Thresholds above ``MAX_SCALES`` are left out.

    :param curve: ``[diskplacer_weights] curve``.
    :param classes: the number of classes, which is the highest class.
    :param lowest: the lowest class.
    :raises ContentionError: the curve is neither known nor a list of
        thresholds.
    """
    count = classes - lowest
    if curve in CURVES:
        found = CURVES[curve](count)
    else:
        found = _parse(curve)[:count]
    return tuple(use for use in found if use <= MAX_SCALES)


def _parse(curve: str) -> list[float]:
    """Return the thresholds of a list such as ``1,2,4``."""
    try:
        found = [float(text) for text in curve.split(',')]
    except ValueError:
        found = []
    pairs = zip([0.0, *found], found, strict=False)
    if not found or not all(before <= use for before, use in pairs):
        raise exception.ContentionError(
            f'[diskplacer_weights] curve={curve} is neither '
            f'{", ".join(CURVES)} nor a rising list of thresholds such as '
            '1,2,4'
        )
    return found
