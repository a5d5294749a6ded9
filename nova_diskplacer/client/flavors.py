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

"""Flavors and their profiles, for both command lines."""

import collections.abc
import contextlib
import dataclasses
import difflib
import typing

from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer.profiles import advice
from nova_diskplacer.profiles import catalogue
from nova_diskplacer.profiles import definitions

_Named = typing.TypeVar('_Named')

#: Columns and rows.
Table = tuple[tuple[str, ...], list[tuple[typing.Any, ...]]]


@dataclasses.dataclass(frozen=True)
class Change:
    """The extra specs of a flavor before and after a profile is applied.

    ``findings`` are the problems that the flavor has afterwards. ``error`` is
    the reason for which no server of it boots, empty if servers do.
    """

    profile: str
    flavor: advice.Flavor
    after: dict[str, str]
    findings: list[advice.Finding]
    error: str = ''

    @property
    def set(self) -> dict[str, str]:
        """The extra specs to set."""
        before = self.flavor.extra_specs.items()
        return dict(self.after.items() - before)

    @property
    def unset(self) -> list[str]:
        """The keys of the extra specs to remove."""
        return [
            key for key in self.flavor.extra_specs if key not in self.after
        ]

    def write(
        self,
        unset: collections.abc.Callable[[str], None],
        set_: collections.abc.Callable[[dict[str, str]], None],
    ) -> None:
        """Write the change to Nova; a repetition completes a part of it.

        :param unset: removes a key; does nothing if it is gone.
        :param set_: sets extra specs, in one request.
        """
        # Each key takes a request of its own. The new profile's name comes
        # last, with all that is set: what is to be removed is known by the old
        # profile's name. Until then servers get the same vdisks, because the
        # old profile fills in the keys that are gone.
        for key in self.unset:
            unset(key)
        if not self.set:
            return
        try:
            set_(self.set)
        except Exception as error:
            if self.unset and _is_refusal(error):
                # Nova checks all of them before it sets any
                before = self.flavor.extra_specs
                with contextlib.suppress(Exception):
                    set_({key: before[key] for key in self.unset})
            raise

    @property
    def lines(self) -> list[str]:
        """A unified diff of the extra specs, and the findings as comments."""
        return [
            *diff(
                self.flavor.name,
                f'with profile {self.profile}',
                self.flavor.extra_specs,
                self.after,
            ),
            *(
                f'# {finding.text}'
                + (f' ({finding.source})' if finding.source else '')
                for finding in self.findings
            ),
        ]


def _is_refusal(error: Exception) -> bool:
    """Return whether a client's error is an answer that refuses a request."""
    status = getattr(error, 'status_code', None) or getattr(
        error, 'code', None
    )
    return isinstance(status, int) and 400 <= status < 500


def change(
    before: advice.Flavor,
    profile: definitions.Profile,
    profiles: catalogue.Catalogue,
    volume_type: str | None,
) -> Change:
    """Return how a profile changes a flavor.

    :param volume_type: that of the vdisks of a flavor and profile without one.
    """
    after = advice.specs_with_profile(
        profile, before.extra_specs, profiles, volume_type
    )
    changed = dataclasses.replace(before, extra_specs=after)
    effective = advice.effective_specs(after, profiles)
    findings = advice.check(changed, profiles)
    findings += advice.weights_left_out(profile, effective)
    error = ''
    try:
        flavor.parse(after, profiles)
    except ValueError as invalid:
        error = str(invalid)
    return Change(profile.name, before, after, findings, error)


def diff(
    name: str,
    what: str,
    before: collections.abc.Mapping[str, str],
    after: collections.abc.Mapping[str, str],
) -> list[str]:
    """Return the lines of a unified diff of a flavor's extra specs."""
    old, new = (
        [f'{key}={value}' for key, value in sorted(specs.items())]
        for specs in (before, after)
    )
    return list(
        difflib.unified_diff(
            old, new, f'flavor {name}', what, n=1000, lineterm=''
        )
    )


def request_of(
    name: str,
    specs: collections.abc.Mapping[str, str],
    profiles: catalogue.Catalogue,
) -> flavor.VDiskRequest:
    """Return the vdisks that a server of a flavor boots with.

    :raises DiskPlacerError: there are none, or the extra specs are wrong.
    """
    try:
        request = flavor.parse(specs, profiles)
    except ValueError as error:
        raise exception.DiskPlacerError(f'flavor {name}: {error}') from None
    if request is None:
        raise exception.DiskPlacerError(
            f'flavor {name} has no vdisks: {flavor.NAMESPACE}vdisks and '
            f'{flavor.NAMESPACE}vdisk_gb are not set'
        )
    return request


def requests_of(
    flavors: collections.abc.Iterable[advice.Flavor],
    profiles: catalogue.Catalogue,
) -> dict[str, flavor.VDiskRequest]:
    """Return the vdisks of the servers of each flavor, by its name.

    Flavors without vdisks, and those that are wrong, are left out: ``table``
    and ``openstack vdisk check`` show the latter.
    """
    requests = {}
    for flavor_ in flavors:
        with contextlib.suppress(exception.DiskPlacerError):
            requests[flavor_.name] = request_of(
                flavor_.name, flavor_.extra_specs, profiles
            )
    return requests


def choose(
    listed: collections.abc.Iterable[_Named],
    names: collections.abc.Collection[str],
    name_of: collections.abc.Callable[[_Named], str],
    id_of: collections.abc.Callable[[_Named], str],
) -> list[_Named]:
    """Return the flavors with these names or IDs, all by name without any.

    :raises DiskPlacerError: there is no such flavor.
    """
    by_name = {name_of(flavor_): flavor_ for flavor_ in listed}
    by_name_or_id = by_name | {
        id_of(flavor_): flavor_ for flavor_ in by_name.values()
    }
    if not names:
        return [by_name[name] for name in sorted(by_name)]
    for name in names:
        if name not in by_name_or_id:
            raise exception.DiskPlacerError(
                f'no flavor {name}; there are: ' + ', '.join(sorted(by_name))
            )
    return list(
        {
            id_of(by_name_or_id[name]): by_name_or_id[name] for name in names
        }.values()
    )


def apply(
    changes: collections.abc.Iterable[Change],
    write: collections.abc.Callable[[Change], None] | None,
) -> collections.abc.Iterator[str]:
    """Show how flavors change, change them, and yield the lines to print.

    :param write: changes a flavor; raises ``DiskPlacerError``. None to change
        nothing.
    :raises DiskPlacerError: a flavor to change would be invalid; none is
        changed then.
    """
    changes = list(changes)
    for change in changes:
        yield from change.lines
    changes = [change for change in changes if change.set or change.unset]
    if not changes:
        yield 'Nothing to change.'
    elif write is None:
        yield 'Nothing is changed without --yes.'
    else:
        for change in changes:
            if change.error:
                raise exception.DiskPlacerError(
                    f'flavor {change.flavor.name}: {change.error}; nothing is '
                    'changed'
                )
        for change in changes:
            write(change)
            name = change.flavor.name
            yield f'Flavor {name} has profile {change.profile} now.'


def table(
    flavors: collections.abc.Iterable[advice.Flavor],
    profiles: catalogue.Catalogue,
) -> Table:
    """Return the flavors with vdisks, and those that are wrong."""
    rows: list[tuple[typing.Any, ...]] = []
    for flavor_ in flavors:
        profile = flavor_.extra_specs.get(advice.PROFILE, '')
        try:
            request = flavor.parse(flavor_.extra_specs, profiles)
        except ValueError as error:
            rows.append((flavor_.name, '', '', '', '', profile, str(error)))
            continue
        if request is not None:
            rows.append(
                (
                    flavor_.name,
                    request.vdisks,
                    request.vdisk_gb,
                    request.mapping,
                    request.media,
                    request.profile or '',
                    '',
                )
            )
    return (
        'Flavor',
        'VDisks',
        'GiB',
        'Mapping',
        'Media',
        'Profile',
        'Error',
    ), rows


def fields(
    flavor_: advice.Flavor, profiles: catalogue.Catalogue
) -> tuple[tuple[str, ...], tuple[typing.Any, ...]]:
    """Return what the disks of a flavor's servers are like.

    :raises DiskPlacerError: the flavor has no vdisks, or is wrong.
    """
    request = request_of(flavor_.name, flavor_.extra_specs, profiles)
    shown = {
        'flavor': flavor_.name,
        **{
            key: '' if value is None else value
            for key, value in dataclasses.asdict(request).items()
        },
        'extra_specs': ', '.join(
            f'{key}={value}'
            for key, value in sorted(
                advice.effective_specs(flavor_.extra_specs, profiles).items()
            )
        ),
    }
    return tuple(shown), tuple(shown.values())


def profile_table(profiles: catalogue.Catalogue) -> Table:
    """Return the profiles."""
    return ('Profile', 'Aliases', 'For'), [
        (profile.name, ', '.join(profile.aliases), profile.title)
        for profile in profiles.values()
    ]


def settings_table(profile: definitions.Profile) -> Table:
    """Return the settings of a profile and their sources."""
    return ('Setting', 'Value', 'Rests on'), [
        (path, text(path, value), profile.sources.get(path, ''))
        for path, value in definitions.settings(profile).items()
    ]


def text(path: str, value: typing.Any) -> str:
    """Return the value of a setting, formatted for people."""
    if path.endswith(('.recommended', '.measured')):
        return advice.between(value)
    if path == 'guest.notes':
        return '\n'.join(value)
    return ', '.join(value) if isinstance(value, tuple) else str(value)


def findings_table(
    findings: collections.abc.Iterable[advice.Finding],
) -> Table:
    """Return the problems of flavors."""
    return ('Flavor', 'Profile', 'Finding', 'Rests on'), [
        dataclasses.astuple(finding) for finding in findings
    ]
