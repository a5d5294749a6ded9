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

"""The extra spec ``diskplacer:stripe_disks``: the disks of a striped vdisk.

It is a number with the mapping ``striped``, and the least and the largest one,
as in ``1-4``, with ``elastic``.
"""

from nova_diskplacer import constants
from nova_diskplacer import mapping

_KEY = 'diskplacer:stripe_disks'
_MAPPING = 'diskplacer:mapping'

_MOST = constants.MAX_STRIPE_DISKS
_STRIPED = f'an integer from 2 to {_MOST}'
_ELASTIC = (
    'MINIMUM-MAXIMUM, such as 1-4, where the maximum is at most '
    f'{_MOST} and a multiple of the smaller minimum'
)
_FORMS = {mapping.STRIPED: _STRIPED, mapping.ELASTIC: _ELASTIC}

#: What a value may be with any mapping, in words.
ALLOWED = f'{_STRIPED}, or {_ELASTIC}'

#: The regular expression of it.
PATTERN = '|'.join(
    (
        *(str(number) for number in range(2, _MOST + 1)),
        *(
            f'{low}-{high}'
            for high in range(2, _MOST + 1)
            for low in range(1, high)
            if high % low == 0
        ),
    )
)


def parse(policy: str, text: str | None) -> tuple[int, int]:
    """Return the disks of a vdisk, and the most that it may have later.

    They are 1 and 0 if it is not striped. The latter is 0 if it is not
    elastic.

    :param policy: name of the mapping.
    :param text: a value that :data:`PATTERN` matches, None without one.
    :raises ValueError: it does not fit the mapping.
    """
    form = _FORMS.get(policy)
    if form is None:
        if text is not None:
            raise ValueError(
                f'{_KEY}={text} is allowed only with '
                f'{_MAPPING}={mapping.STRIPED} or {mapping.ELASTIC}, not with '
                f'{_MAPPING}={policy}'
            )
        return 1, 0
    low, dash, high = (text or '').partition('-')
    if text is None or bool(dash) != (policy == mapping.ELASTIC):
        raise ValueError(
            f'{_MAPPING}={policy} requires {_KEY}, {form}'
            + (f', not {text}' if text else '')
        )
    return int(low), int(high or 0)
