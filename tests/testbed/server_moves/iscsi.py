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

"""The guest's iSCSI: the kernel's targets, iscsid, and the network between."""

import contextlib
import io
import os
import pathlib
import subprocess
import time

import rtslib_fb
from cinder.cmd import rtstool as rtstool_command
from oslo_concurrency import processutils

from tests import shell

CONFIGFS = '/sys/kernel/config'
TARGETS = f'{CONFIGFS}/target/iscsi'
BACKSTORES = f'{CONFIGFS}/target/core'
INITIATOR = pathlib.Path('/etc/iscsi/initiatorname.iscsi')

# Seconds until iscsid listens.
_PATIENCE = 180


def start_initiator(name, cleanup):
    """Start iscsid.

    :param name: of the initiator.
    :param cleanup: adds a cleanup to the test, or to its class.
    """
    shell.run('modprobe', 'iscsi_tcp')
    INITIATOR.write_text(f'InitiatorName={name}\n')
    daemon = subprocess.Popen(['iscsid', '-f'])
    cleanup(daemon.wait)
    cleanup(daemon.kill)
    deadline = time.monotonic() + _PATIENCE
    while (
        '@ISCSIADM_ABSTRACT_NAMESPACE'
        not in pathlib.Path('/proc/net/unix').read_text()
    ):
        assert time.monotonic() < deadline, 'iscsid does not listen'
        time.sleep(0.2)


def start_targets(cleanup):
    """Load LIO, and mount what it is configured by."""
    # rtslib does nothing without it
    os.makedirs('/etc/target', exist_ok=True)
    for module in ('iscsi_target_mod', 'target_core_iblock', 'loop'):
        shell.run('modprobe', module)
    if not os.path.ismount(CONFIGFS):
        shell.run('mount', '-t', 'configfs', 'none', CONFIGFS)
        cleanup(shell.run, 'umount', CONFIGFS)
    # a loop device stays when its file has left it
    cleanup(shell.run, 'modprobe', '--remove', 'loop')


def rtstool(*command, **options):
    """Do as ``cinder.utils.execute`` for Cinder's tool for LIO.

    It runs in this process: another one would import Cinder first.
    """
    # another process may have changed what rtslib knows of the kernel
    rtslib_fb.tcm.bs_cache.clear()
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            rtstool_command.main([str(word) for word in command])
        except Exception as error:
            raise processutils.ProcessExecutionError(
                stderr=str(error), cmd=command[1]
            ) from error
    return out.getvalue(), ''


def targets():
    """Return the names of the targets."""
    if not os.path.isdir(TARGETS):
        return []
    return [name for name in os.listdir(TARGETS) if name.startswith('iqn')]


def backstores():
    """Return the names of what targets export."""
    return [
        path.parent.name for path in pathlib.Path(BACKSTORES).glob('*/*/info')
    ]


def initiators(target):
    """Return the initiators that may log in to a target."""
    return os.listdir(f'{TARGETS}/{target}/tpgt_1/acls')


def sessions():
    """Return the names of the targets of the sessions."""
    return [
        path.read_text().strip()
        for path in pathlib.Path('/sys/class/iscsi_session').glob(
            'session*/targetname'
        )
    ]


def recovery_tmo():
    """Return after how many seconds the kernel fails requests; -1 never."""
    (path,) = pathlib.Path('/sys/class/iscsi_session').glob(
        'session*/recovery_tmo'
    )
    return path.read_text().strip()


def nodes():
    """Return what iscsiadm has recorded of targets."""
    done = subprocess.run(
        ['iscsiadm', '-m', 'node'], capture_output=True, text=True
    )
    # without records it fails
    return done.stdout.split('\n')[:-1]


def loops():
    """Return the loop devices that have a file."""
    return shell.run('losetup', '--noheadings', '--output', 'NAME').split()


@contextlib.contextmanager
def lost_network():
    """Lose all packets."""
    shell.run(
        'tc', 'qdisc', 'add', 'dev', 'lo', 'root', 'netem', 'loss', '100%'
    )
    try:
        yield
    finally:
        shell.run('tc', 'qdisc', 'del', 'dev', 'lo', 'root')


def clear():
    """Remove all that a test that has failed may have left."""
    subprocess.run(['iscsiadm', '-m', 'node', '--logout'], capture_output=True)
    subprocess.run(
        ['iscsiadm', '-m', 'node', '-o', 'delete'], capture_output=True
    )
    rtslib_fb.RTSRoot().clear_existing(confirm=True)
