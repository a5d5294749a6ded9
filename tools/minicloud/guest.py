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


"""The guests: Debian's kernel, and an initramfs of busybox and modules.

One says which vdisks it sees, one has fio and runs its user data, and one
verifies what it writes to its vdisks.
"""

import collections.abc
import lzma
import pathlib
import re
import shutil
import stat
import sys
import tempfile
import types

from tools.minicloud import kernel
from tools.minicloud import process

MODULES = (
    'drivers/virtio/virtio_ring',
    'drivers/virtio/virtio',
    'drivers/virtio/virtio_pci_legacy_dev',
    'drivers/virtio/virtio_pci_modern_dev',
    'drivers/virtio/virtio_pci',
    'drivers/block/virtio_blk',
)
# of a config drive on a controller of SCSI, besides
DRIVE_MODULES = (
    'drivers/scsi/scsi_common',
    'drivers/scsi/scsi_mod',
    'drivers/scsi/virtio_scsi',
    'drivers/cdrom/cdrom',
    'drivers/scsi/sr_mod',
    'fs/isofs/isofs',
)
#: Properties of the image of a guest that runs user data.
DRIVE_PROPERTIES = {
    'hw_cdrom_bus': 'scsi',
    'hw_disk_bus': 'virtio',
    'hw_scsi_model': 'virtio-scsi',
}
INIT = pathlib.Path(__file__).with_name('guest-init')
SWEEP_INIT = INIT.with_name('sweep-init')
MOVING_INIT = INIT.with_name('moving-init')
#: Memory in MiB of the guest that is to move; all of it is migrated.
MOVING_RAM = 160


def build(cache: pathlib.Path | None = None) -> tuple[bytes, bytes]:
    """Return the kernel and the initramfs of the guest that sees vdisks.

    The kernel is downloaded once and kept in ``cache``, by default in the
    Python environment.
    """
    return _build(cache, MODULES, {'init': INIT.read_bytes()})


def build_with_fio(cache: pathlib.Path | None = None) -> tuple[bytes, bytes]:
    """Return the kernel and the initramfs of the guest with fio.

    It is one that runs user data, with this machine's fio.
    """
    return build_with_user_data(
        cache, program_files(pathlib.Path('/usr/bin/fio'))
    )


def build_with_user_data(
    cache: pathlib.Path | None = None,
    files: collections.abc.Mapping[str, bytes] = types.MappingProxyType({}),
) -> tuple[bytes, bytes]:
    """Return the kernel and the initramfs of a guest that runs user data.

    Its image needs ``DRIVE_PROPERTIES``.

    :param files: what it has besides busybox, by paths without a leading /.
    """
    return _build(
        cache,
        (*MODULES, *DRIVE_MODULES),
        {'init': SWEEP_INIT.read_bytes(), **files},
    )


def build_moving(
    cache: pathlib.Path | None = None,
) -> tuple[bytes, bytes]:
    """Return the kernel and the initramfs of the guest that is to move.

    It has two vdisks, and its image needs ``DRIVE_PROPERTIES``.
    """
    return build_with_user_data(cache, {'init': MOVING_INIT.read_bytes()})


def _build(
    cache: pathlib.Path | None,
    modules: collections.abc.Iterable[str],
    files: dict[str, bytes],
) -> tuple[bytes, bytes]:
    cache = cache or pathlib.Path(sys.prefix) / 'guest'
    if not (cache / 'kernel').exists():
        _download(cache)
    initramfs = archive(
        {
            **files,
            'bin/busybox': pathlib.Path('/bin/busybox').read_bytes(),
            **module_files(
                cache / f'{module.rsplit("/", 1)[-1]}.ko' for module in modules
            ),
        }
    )
    return (cache / 'kernel').read_bytes(), initramfs


def program_files(program: pathlib.Path) -> dict[str, bytes]:
    """Return a program and its libraries as files of an initramfs."""
    # NAME => PATH (ADDRESS), and the dynamic linker's PATH (ADDRESS)
    found = re.findall(r'(/\S+) \(', process.run('ldd', str(program)))
    return {
        path.lstrip('/'): pathlib.Path(path).read_bytes()
        for path in (str(program), *found)
    }


def module_files(
    paths: collections.abc.Iterable[pathlib.Path],
) -> dict[str, bytes]:
    """Return modules as files of an initramfs, named in the order given."""
    files = {}
    for index, path in enumerate(paths):
        content = path.read_bytes()
        if path.suffix == '.xz':
            content = lzma.decompress(content)
        name = path.name.partition('.')[0]
        files[f'modules/{index:02}-{name}.ko'] = content
    return files


def _download(cache: pathlib.Path) -> None:
    depends = process.run('apt-cache', 'depends', 'linux-image-amd64')
    package = depends.partition('Depends: ')[2].split()[0]
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.parent) as name:
        directory = pathlib.Path(name)
        process.run(
            'sh', '-c', f'cd "{directory}" && apt-get download {package}'
        )
        (deb,) = directory.glob('*.deb')
        process.run('dpkg-deb', '--extract', str(deb), str(directory / 'x'))
        kept = directory / 'kept'
        kept.mkdir()
        for module in (*MODULES, *DRIVE_MODULES):
            (path,) = directory.glob(f'x/lib/modules/*/kernel/{module}.ko')
            shutil.copy(path, kept)
        (packed,) = directory.glob('x/boot/vmlinuz-*')
        (kept / 'kernel').write_bytes(kernel.decompress(packed.read_bytes()))
        try:
            kept.rename(cache)
        except OSError:
            # another cloud may have been quicker
            if not (cache / 'kernel').exists():
                raise


def archive(files: dict[str, bytes]) -> bytes:
    """Return executable files, and the directories they need, as a cpio."""
    entries: dict[str, tuple[int, bytes]] = {}
    for name, content in files.items():
        for parent in list(pathlib.PurePath(name).parents)[-2::-1]:
            entries.setdefault(str(parent), (stat.S_IFDIR | 0o755, b''))
        entries[name] = (stat.S_IFREG | 0o755, content)
    packed = [
        _entry(name, mode, content, number)
        for number, (name, (mode, content)) in enumerate(entries.items(), 1)
    ]
    return b''.join([*packed, _entry('TRAILER!!!', 0, b'', 0)])


def _entry(name: str, mode: int, content: bytes, number: int) -> bytes:
    fields = (
        number,
        mode,
        0,
        0,
        1,
        0,
        len(content),
        0,
        0,
        0,
        0,
        len(name) + 1,
        0,
    )
    header = '070701' + ''.join(f'{field:08x}' for field in fields)
    return _pad(header.encode() + name.encode() + b'\0') + _pad(content)


def _pad(data: bytes) -> bytes:
    return data + b'\0' * (-len(data) % 4)
