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

"""The guest's root disk, kernel and initrd: made once, kept in the checkout.

``.testbed/KEY`` holds them, with KEY made of all that they depend on.
"""

import collections.abc
import contextlib
import fcntl
import hashlib
import pathlib
import shutil
import subprocess
import sys
import tempfile

from tools.minicloud import guest
from tools.minicloud import kernel

TOP = pathlib.Path(__file__).resolve().parents[2]
CACHE = TOP / '.testbed'
INIT = pathlib.Path(__file__).with_name('initrd-init')
SIZE = '6G'
# The host's Python environment runs in the guest, so Python must be the same.
SUITES = {(3, 11): 'bookworm', (3, 13): 'trixie'}
PACKAGES = (
    'blktrace',
    'busybox-static',
    'cloud-init',
    'cryptsetup-bin',
    'dbus',
    'e2fsprogs',
    'fio',
    'iproute2',
    'kmod',
    'libvirt-daemon',
    'libvirt-daemon-driver-qemu',
    'lvm2',
    'mdadm',
    'nfs-common',
    'numactl',
    'open-iscsi',
    'pciutils',
    'procps',
    'python3',
    'python3-venv',
    'qemu-system-x86',
    'qemu-utils',
    'smartmontools',
    'systemd-container',
    'systemd-sysv',
    'tgt',
    'thin-provisioning-tools',
    'udev',
    'util-linux',
    'xfsprogs',
)
# What a whole cloud takes besides, for tools/whole_cloud: uwsgi needs Python's
# library.
CLOUD_PACKAGES = (
    'genisoimage',
    f'libpython{sys.version_info[0]}.{sys.version_info[1]}',
    'libvirt-clients',
    'libvirt-daemon-system',
    'mariadb-server',
    'memcached',
    'rabbitmq-server',
)
CLOUD_PREFIX = 'cloud-'
# What the initrd needs to mount the root disk and the host's directories.
MODULES = ('virtio_pci', 'virtio_blk', 'ext4', '9pnet_virtio', '9p')
# Only the kernel's files: its package would have an initrd made.
KERNEL = """
set -e
cd "$1/tmp"
chroot "$1" sh -c '
    cd /tmp
    apt-get -q download $(apt-cache depends linux-image-amd64 |
        sed -n "s/.*Depends: //p")
    dpkg-deb --extract linux-image-*.deb kernel
    cp -a kernel/lib/modules /usr/lib/
    depmod "$(ls /usr/lib/modules)"
'
mv kernel/boot/vmlinuz-* "$1/boot/kernel"
rm -rf kernel *.deb
"""


class ImageError(Exception):
    """The image cannot be made."""


def suite() -> str:
    """Return the release of Debian that has the Python that runs this.

    :raises ImageError: none has.
    """
    try:
        return SUITES[sys.version_info[:2]]
    except KeyError:
        raise ImageError(
            f'Python {sys.version_info[0]}.{sys.version_info[1]}: no release '
            'of Debian for the testbed has it; DISKPLACER_VENV can name an '
            'environment of Python 3.11 or 3.13'
        ) from None


def key(packages: collections.abc.Sequence[str] = PACKAGES) -> str:
    """Return what tells this image from those made in another way."""
    parts = (suite(), SIZE, *packages, *MODULES, KERNEL, INIT.read_text())
    return hashlib.sha256('\0'.join(parts).encode()).hexdigest()[:12]


def build(whole_cloud: bool = False) -> pathlib.Path:
    """Have the image, and return its directory.

    :param whole_cloud: the image has ``CLOUD_PACKAGES`` too.
    :raises ImageError: it cannot be made; says why.
    """
    prefix = CLOUD_PREFIX if whole_cloud else ''
    packages = (*PACKAGES, *CLOUD_PACKAGES) if whole_cloud else PACKAGES
    with locked():
        path = CACHE / f'{prefix}{key(packages)}'
        if not path.exists():
            for old in CACHE.iterdir():
                is_for_cloud = old.name.startswith(CLOUD_PREFIX)
                if old.is_dir() and is_for_cloud == whole_cloud:
                    shutil.rmtree(old)
            _make(path, packages)
    return path


def clean() -> None:
    """Remove all that was kept."""
    if CACHE.exists():
        with locked():
            shutil.rmtree(CACHE)


@contextlib.contextmanager
def locked() -> collections.abc.Iterator[None]:
    """Hold the lock of what is kept."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / 'lock').open('w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(path: pathlib.Path, packages: collections.abc.Sequence[str]) -> None:
    print(f'== testbed image {path.name}', file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix='build-') as name:
        work = pathlib.Path(name)
        root, made = work / 'root', work / 'made'
        made.mkdir()
        # mounts made in there end with the namespace, all else with us
        _run(
            work,
            'setpriv', '--pdeathsig', 'KILL',
            'unshare', '--mount', '--pid', '--fork', '--kill-child',
            '--mount-proc',
            'mmdebstrap', '--mode=root', '--variant=minbase',
            f'--include={",".join(packages)}',
            '--aptopt=Apt::Install-Recommends "false"',
            f'--customize-hook={KERNEL}',
            suite(), str(root),
        )  # fmt: skip
        packed = root / 'boot' / 'kernel'
        packed.write_bytes(kernel.decompress(packed.read_bytes()))
        shutil.copy(packed, made)
        (made / 'initrd').write_bytes(_initrd(root))
        _run(
            work,
            'mke2fs', '-q', '-t', 'ext4', '-O', '^metadata_csum,^64bit',
            '-d', str(root), str(made / 'root.img'), SIZE,
        )  # fmt: skip
        made.rename(path)


def _run(work: pathlib.Path, *argv: str) -> None:
    done = subprocess.run(
        argv,
        env={
            'PATH': '/usr/sbin:/usr/bin:/sbin:/bin',
            'TMPDIR': str(work),
            'LANG': 'C.UTF-8',
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise ImageError(
            f'{argv}: exit {done.returncode}:\n{done.stdout[-4000:]}'
        )


def _initrd(root: pathlib.Path) -> bytes:
    files = {
        'init': INIT.read_bytes(),
        'bin/busybox': pathlib.Path('/bin/busybox').read_bytes(),
        **guest.module_files(_modules(root)),
    }
    return guest.archive(files)


def _modules(root: pathlib.Path) -> list[pathlib.Path]:
    """Return the files of MODULES and what they need, that first."""
    (directory,) = (root / 'usr' / 'lib' / 'modules').iterdir()
    needs: dict[str, list[str]] = {}
    for line in (directory / 'modules.dep').read_text().splitlines():
        module, _, needed = line.partition(':')
        needs[module] = needed.split()
    by_name = {
        pathlib.Path(module).name.partition('.')[0]: module for module in needs
    }
    ordered: list[str] = []
    for name in MODULES:
        for module in (*reversed(needs[by_name[name]]), by_name[name]):
            if module not in ordered:
                ordered.append(module)
    # loaded by name of algorithm, which modules.dep does not tell
    crc = by_name.get('crc32c_generic')
    return [directory / one for one in filter(None, (crc, *ordered))]
