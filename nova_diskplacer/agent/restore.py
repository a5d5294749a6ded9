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

"""Restores the kernel settings that the agent changed for I/O weights."""

import collections.abc
import contextlib

from oslo_config import cfg

from nova_diskplacer import exception
from nova_diskplacer.host import cgroups
from nova_diskplacer.io_weights import bfq_settings
from nova_diskplacer.io_weights import io_cost
from nova_diskplacer.io_weights import writer
from nova_diskplacer.monitor import seek_detector


def restore_kernel_state(conf: cfg.ConfigOpts) -> None:
    """Restore what an agent that has ended has changed; repeatable.

    :raises DiskPlacerError: a part could not be restored; the others are.
    """
    _run_all(
        [lambda: seek_detector.clean(conf), lambda: restore_weights(conf)]
    )


def restore_weights(conf: cfg.ConfigOpts) -> None:
    """Restore weights, io.cost and BFQ; repeatable.

    A running agent may be tracing meanwhile.

    :raises DiskPlacerError: a part could not be restored; the others are.
    """
    restores: list[collections.abc.Callable[[], None]] = [
        lambda: bfq_settings.BFQSettings(conf).restore(),
    ]
    # without a hierarchy nothing was changed
    with contextlib.suppress(exception.ContentionError):
        hierarchy = cgroups.hierarchy()
        restores += [
            lambda: writer.WeightWriter(conf, hierarchy).restore(),
            lambda: io_cost.IOCost(conf, hierarchy).disable_except(),
        ]
    _run_all(restores)


def _run_all(
    restores: collections.abc.Iterable[collections.abc.Callable[[], None]],
) -> None:
    failed = []
    for restore in restores:
        try:
            restore()
        except exception.DiskPlacerError as error:
            failed.append(str(error))
    if failed:
        raise exception.ContentionError('; '.join(failed))
