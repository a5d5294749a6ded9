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

"""Walks the steps of an operation, killing cinder-volume at each."""

import contextlib
import logging
import os

from oslo_config import cfg

from nova_diskplacer.disks import links
from nova_diskplacer.disks.filesystem import devices
from nova_diskplacer.disks.filesystem import vdisks
from tests.functional.crash import cloud as cloud_
from tests.functional.crash import operations
from tests.functional.crash import steps as steps_


def start(directory, disk_root):
    """Start the cloud of this process, of which others are forked."""
    global CLOUD
    # nobody but the stand-in for QEMU looks at devices here
    devices._WAITS = ()
    logging.getLogger().addHandler(logging.NullHandler())
    CLOUD = cloud_.Cloud(directory, disk_root)


def walk(kind):
    """Kill cinder-volume at each step of an operation; returns their names.

    One that is not killed takes the steps first, of which those that are
    repeated many times are sampled, and those of the operation ``beside`` are
    left to its walk. After each kill it is started again. Then the operation
    is repeated, or all is deleted; before every second of these what the
    audit can repair is repaired, unless another walk sees to that.

    :raises AssertionError: something is lost, leaked or wrong afterwards.
    """
    operation, name = kind(), kind.__name__
    _rehearse(operation)
    taken = _take(operation)
    numbers = steps_.choose(taken)
    if operation.beside:
        added = steps_.added(taken, _take(operation.beside()))
        numbers = [number for number in numbers if number in added]
        _connect(operation)
    walked = []
    for number in numbers:
        step = number + 1
        for way in operation.ways:
            made, _, where = _run(operation, number)
            try:
                _survive(operation, made, step, where and way)
            except AssertionError as error:
                raise AssertionError(
                    f'{name}, killed at step {step} (after {where}) and '
                    f'{way}: {error}'
                ) from error
        walked.append(taken[number][0])
    return walked


def walk_failing_saves(kind):
    """Have each commit of an operation fail; returns their number.

    cinder-volume goes on. Then the operation is repeated, or all is deleted.

    :raises AssertionError: something is lost, leaked or wrong afterwards.
    """
    operation, name = kind(), kind.__name__
    _rehearse(operation)
    _, taken, _ = _run(operation, None)
    CLOUD.forked(_cleaned, operation)
    commits = [
        number for number, (step, _) in enumerate(taken) if step == 'commit'
    ]
    for number in commits:
        for way in operation.ways:
            made, _, where = _run(operation, number, True)
            try:
                CLOUD.forked(_survivor, operation, made, number, way, False)
            except AssertionError as error:
                raise AssertionError(
                    f'{name}, step {number + 1} was {where}, and {way}: '
                    f'{error}'
                ) from error
    return len(commits)


def _cleaned(tell, operation):
    CLOUD.resume()
    operation.end(CLOUD, {})
    CLOUD.clear()


def _take(operation):
    """Return the steps that an operation takes if it is not killed."""
    _connect(operation)
    made, taken, _ = _run(operation, None)
    _survive(operation, made, 0, None)
    return taken


def _connect(operation):
    for medium in operation.media:
        cfg.CONF.set_override('vdisk_connection', operation.connection, medium)


def _rehearse(operation):
    """Do it all here once: what is forked then is warm, and has started."""
    CLOUD.restart(operation.media)
    _connect(operation)
    try:
        made = operation.prepare(CLOUD)
        operation.perform(CLOUD, made)
        operation.answered(CLOUD, made)
        operation.check(CLOUD, made)
        _see_that_all_agrees('audit')
        operation.end(CLOUD, made)
        CLOUD.clear()
        _see_that_nothing_is_left()
    finally:
        CLOUD.pause()


def _run(operation, number, failing=False):
    """Run it and kill it after a step, None for none.

    :param number: of the step, from 0 on.
    :param failing: whether that step, a commit, fails instead.

    Returns what was made before it, the steps that it took if it was not
    killed, and the name of the step at which it was.
    """
    told, signal = CLOUD.forked(_victim, operation, number, failing)
    known = {key: value for one in told for key, value in one.items()}
    where = known.get('killed')
    if bool(signal) != (bool(where) and not failing):
        raise AssertionError(f'ended by signal {signal} at {where}')
    return known['made'], known.get('taken'), where


def _survive(operation, made, step, way):
    _, signal = CLOUD.forked(_survivor, operation, made, step, way)
    if signal:
        raise AssertionError(f'ended by signal {signal} after the restart')


def _victim(tell, operation, number, failing):
    CLOUD.resume()
    made = operation.prepare(CLOUD)
    tell(made=made)
    steps = steps_.Steps(number, lambda name: tell(killed=name), failing)
    steps.install()
    CLOUD.answer = steps.around_placement(CLOUD.placement_app)
    steps.start()
    with contextlib.suppress(*([Exception] if failing else [])):
        operation.perform(CLOUD, made)
        steps.armed = False
        operation.answered(CLOUD, made)
    steps.armed = False
    tell(taken=steps.taken)


def _survivor(tell, operation, made, step, way, restarted=True):
    if restarted:
        CLOUD.restart(operation.media)
    else:
        CLOUD.resume()
    operation.survived(CLOUD, made)
    repairs = operation.repairs and restarted and way
    if repairs and (step % 2 == 0) == (way == operations.AGAIN):
        CLOUD.repair()
        operation.survived(CLOUD, made)
    if way == operations.AGAIN:
        operation.again(CLOUD, made)
    if way != operations.DELETE:
        operation.check(CLOUD, made)
        _see_that_all_agrees('audit')
    operation.end(CLOUD, made)
    CLOUD.clear()
    _see_that_nothing_is_left()


def _see_that_nothing_is_left():
    operations.expect([], CLOUD.files(), 'files')
    operations.expect([], CLOUD.with_device(), 'vdisks with loop devices')
    operations.expect({}, links.all_links(CLOUD.disk_root), 'links')
    _see_that_all_agrees('audit when all is deleted')


def _see_that_all_agrees(what):
    found = CLOUD.findings()
    for kind, disk, message in found:
        if kind == 'wrong-figures':
            # what is given back late is nobody's meanwhile, until the agent
            # looks; what is not there must not be offered
            offered, there = CLOUD.offered(disk)
            if offered > there:
                raise AssertionError(f'disk {disk} is oversold: {message}')
            CLOUD.publish()
    operations.expect([], found and CLOUD.findings(), what)


def reset():
    """Remove whatever a failed walk has left, whoever it belongs to."""
    CLOUD.guests.end()
    for disk in CLOUD.disks():
        for name in vdisks.with_device(disk.path):
            vdisks.detach_device(disk.path, name)
    for path in CLOUD.files():
        os.unlink(path)
    for name in links.all_links(CLOUD.disk_root):
        links.unlink(CLOUD.disk_root, name)
    CLOUD.forked(_reset)


def _reset(tell):
    for record in (
        *cloud_.objects.SnapshotList.get_all(CLOUD.context, {}),
        *cloud_.objects.VolumeList.get_all(CLOUD.context),
    ):
        record.destroy()
    CLOUD.publish()
