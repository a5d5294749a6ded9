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

"""Penalty curves: how the class of a consumer falls as it uses a disk.

A curve is a function and a stevedore plugin of the namespace
``nova_diskplacer.penalty_curves``. It is asked when the agent starts, for
uses from 0 on in steps of 1/``RESOLUTION`` scales, until it is at the lowest
class or at ``LIMIT`` scales, and never again: whatever is wrong with it is
known then.
"""

import collections.abc
import importlib.metadata
import math

from stevedore import driver
from stevedore import exception as stevedore_exception

from nova_diskplacer import exception

NAMESPACE = 'nova_diskplacer.penalty_curves'

#: A curve takes the use of a disk in scales, 0 or more, and the number of
#: classes, which is the highest one, and returns the class for that use. What
#: is above the highest or below the lowest counts as that one, and a fraction
#: as the class above it. No class may be higher than that for a lesser use.
Curve = collections.abc.Callable[[float, int], float]

#: Use in scales beyond which no curve falls.
LIMIT = 1024

#: How many times a scale is divided to find where a curve falls.
RESOLUTION = 16

_OPTION = '[diskplacer_weights] curve'


def linear(use: float, classes: int) -> float:
    """Lose a class with each scale (P4 §IV-D)."""
    return classes - use


def logarithmic(use: float, classes: int) -> float:
    """Lose a class with each doubling beyond the first scale (P4 §IV-D).

    The paper's lg is read as the logarithm to base 2: to base 10 the lowest
    of 10 classes, at its scale of 128 MB, would take 10^9 scales, 128 PB.
    """
    return classes - math.log2(max(use, 1.0))


def load(name: str) -> Curve:
    """Return the curve of that name.

    :raises ContentionError: no plugin of that name is installed, or it cannot
        be imported.
    """
    try:
        plugin: Curve = driver.DriverManager(
            NAMESPACE, name, warn_on_missing_entrypoint=False
        ).driver
    except stevedore_exception.NoMatches:
        installed = importlib.metadata.entry_points(group=NAMESPACE).names
        known = ', '.join(sorted(installed))
        raise exception.ContentionError(
            f'{_OPTION}={name} is not one of those installed: {known}'
        ) from None
    except Exception as error:
        raise exception.ContentionError(
            f'{_OPTION}={name} cannot be loaded: {_said(error)}'
        ) from error
    return plugin


def falls(name: str, classes: int, lowest: int) -> tuple[float, ...]:
    """Return where the class falls: one use, in scales, for each class lost.

    The class of a use is ``classes`` less the number of falls that are not
    above it. A curve that does not reach the lowest class within ``LIMIT``
    scales has fewer falls.

    :param classes: how many classes there are, the highest one.
    :param lowest: the lowest class.
    :raises ContentionError: as ``load``; or the curve fails, returns what is
        no number, or rises.
    """
    curve = load(name)
    found: list[float] = []
    for step in range(LIMIT * RESOLUTION + 1):
        use = step / RESOLUTION
        level = _level(name, curve, use, classes)
        now = math.ceil(min(max(level, lowest), classes))
        lost = classes - now
        if lost < len(found):
            raise exception.ContentionError(
                f'{_OPTION}={name} rises to class {now} of {classes} at a use '
                f'of {use} scales; it may only fall'
            )
        found += [use] * (lost - len(found))
        if now == lowest:
            break
    return tuple(found)


def _level(name: str, curve: Curve, use: float, classes: int) -> float:
    asked = f'for a use of {use} scales and {classes} classes'
    try:
        level = float(curve(use, classes))
    except Exception as error:
        raise exception.ContentionError(
            f'{_OPTION}={name} fails {asked}: {_said(error)}'
        ) from error
    if math.isnan(level):
        raise exception.ContentionError(
            f'{_OPTION}={name} returns {level} {asked}; it must return a class'
        )
    return level


def _said(error: Exception) -> str:
    return f'{type(error).__name__}: {error}'
