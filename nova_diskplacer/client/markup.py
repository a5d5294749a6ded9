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

"""Writes elements of HTML."""

import html
import typing


def tag(name: str, content: str, **attributes: typing.Any) -> str:
    """Return an element.

    :param content: HTML.
    :param attributes: text; an attribute that is None is left out. ``class_``
        is ``class`` and ``data_host`` is ``data-host``.
    """
    text = ''.join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f'<{name}{text}>{content}</{name}>'
