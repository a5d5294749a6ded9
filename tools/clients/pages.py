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


"""Horizon's pages, as a user presses what they show."""

import collections.abc
import json
import time
import typing

from tools.browser import Page
from tools.clients.project import FLAVOR
from tools.minicloud import cloud as clouds
from tools.minicloud import network

# Seconds that a page may take, and between two looks at it.
_TIMEOUT = 100
_INTERVAL = 0.5
# The first that is visible and enabled and, unless it is '', has the word
# first; in it, if ``inner`` is given, what that selects.
_FIND = """
((selector, word, inner) => {
    const shown = one => one.checkVisibility() && !one.disabled;
    const outer = [...document.querySelectorAll(selector)].find(
        one => shown(one)
            && (!word || one.innerText.trim().split(/\\s+/)[0] === word));
    if (!outer) return null;
    return inner ? [...outer.querySelectorAll(inner)].find(shown) : outer;
})
"""
_WIZARD = '.ng-wizard'
_AVAILABLE = '.transfer-available tbody tr'


class PageError(Exception):
    """A page does not show what it should."""


class Pages:
    """Pages of Horizon at a URL."""

    def __init__(self, page: Page, url: str) -> None:
        self._page = page
        self._url = url

    def log_in(self, login: collections.abc.Mapping[str, str]) -> None:
        """Log in with the variables of an openrc file."""
        self._page.visit(f'{self._url}/auth/login/')
        self._fill('#id_username', login['OS_USERNAME'])
        self._fill('#id_password', login['OS_PASSWORD'])
        self._press('#loginBtn')
        self._wait('!location.pathname.startsWith("/auth/")', 'logged in')

    def launch(self, name: str, new_volume: bool) -> str:
        """Launch an instance of an image, and close the dialog.

        Returns what *Create New Volume* was when the dialog opened.
        """
        self._page.visit(f'{self._url}/project/instances/')
        self._press('#instances__action_launch-ng')
        # the steps are there when all that they show has been read
        self._wait(f'{_find(".nav-item", "Flavor")} != null', 'the steps')
        self._fill(f'{_WIZARD} input[name=name]', name)
        self._press(f'{_WIZARD} .nav-item', 'Source')
        self._choose('#boot-source-type', 'Image')
        begun_with = self._wait(
            _value('#vol-create.active', 'one.innerText.trim()'),
            'Create New Volume',
        )
        if not new_volume:
            self._press('#vol-create', 'No')
        self._press(_AVAILABLE, clouds.IMAGE, 'button')
        self._press(f'{_WIZARD} .nav-item', 'Flavor')
        self._press(_AVAILABLE, FLAVOR, 'button')
        self._press(f'{_WIZARD} .nav-item', 'Networks')
        # Horizon takes the network if there is no other one
        self._press_if_there(_AVAILABLE, network.NAME, 'button')
        self._press(f'{_WIZARD} .finish')
        self._wait(f'!document.querySelector("{_WIZARD}")', 'launched')
        return str(begun_with)

    def delete(self, server: str) -> None:
        """Delete an instance by the button of its row, and confirm."""
        self._page.visit(f'{self._url}/project/instances/')
        self._press(f'tr[data-object-id="{server}"] .dropdown-toggle')
        self._press(f'#instances__row_{server}__action_delete')
        self._press('.modal .btn-danger, .modal .btn-primary')
        self._wait('!document.querySelector(".modal.in")', 'deleted')

    def _press(self, selector: str, word: str = '', inner: str = '') -> None:
        self._wait(
            _pressed(selector, word, inner), f'{selector} {word}'.strip()
        )

    def _press_if_there(self, selector: str, word: str, inner: str) -> None:
        self._page.run(_pressed(selector, word, inner))

    def _fill(self, selector: str, text: str) -> None:
        self._wait(
            _value(
                selector,
                f'(one.value = {json.dumps(text)}, one.dispatchEvent('
                'new Event("input", {bubbles: true})))',
            ),
            selector,
        )

    def _choose(self, selector: str, text: str) -> None:
        """Choose the option with a text."""
        self._wait(
            _value(
                selector,
                '[...one.options].filter(option => option.text.trim() === '
                f'{json.dumps(text)}).map(option => (option.selected = true, '
                'one.dispatchEvent(new Event("change", {bubbles: true})))'
                ').length > 0',
            ),
            f'{selector} {text}',
        )

    def _wait(self, expression: str, what: str) -> typing.Any:
        """Wait until an expression is true, and return its value.

        :raises PageError: it does not become true; has the page's messages.
        """
        end = time.monotonic() + _TIMEOUT
        while time.monotonic() < end:
            try:
                value = self._page.run(expression)
            except RuntimeError:
                # another page is being loaded
                value = None
            if value:
                return value
            time.sleep(_INTERVAL)
        shown = self._page.run(
            '[...document.querySelectorAll(".alert, .help-block")]'
            '.map(one => one.innerText.trim()).filter(text => text).join("; ")'
        )
        raise PageError(f'no {what}; the page says: {shown or "nothing"}')


def _find(selector: str, word: str = '', inner: str = '') -> str:
    """Return the expression of an element."""
    return f'{_FIND}({", ".join(map(json.dumps, (selector, word, inner)))})'


def _value(selector: str, of: str) -> str:
    """Return the expression of something of an element ``one``."""
    return f'(one => one && ({of}))({_find(selector)})'


def _pressed(selector: str, word: str, inner: str) -> str:
    """Return the expression that presses an element; true if it is there."""
    found = _find(selector, word, inner)
    return f'(one => one && (one.click(), true))({found})'
