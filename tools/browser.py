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

"""A page in Chromium without a window, by the DevTools protocol.

Chromium reads and writes the messages on two pipes (--remote-debugging-pipe),
so neither a port nor a driver is needed.
"""

import base64
import collections.abc
import contextlib
import itertools
import json
import os
import pathlib
import select
import subprocess
import tempfile
import time
import typing

# Seconds that Chromium may take for an answer.
_TIMEOUT = 120

_ARGUMENTS = (
    'chromium',
    '--headless',
    # the sandbox does not work for root
    '--no-sandbox',
    '--disable-gpu',
    '--disable-dev-shm-usage',
    '--hide-scrollbars',
    '--no-first-run',
    '--remote-debugging-pipe',
)

# Font size and contrast (as WCAG defines it) of each element with text.
_TEXTS = """
(() => {
    const channels = colour => colour.match(/[\\d.]+/g).map(Number);
    const luminance = colour => {
        const [r, g, b] = channels(colour).slice(0, 3).map(
            one => one / 255).map(
            one => one <= 0.04045 ? one / 12.92
                : ((one + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const background = one => {
        for (; one; one = one.parentElement) {
            const colour = getComputedStyle(one).backgroundColor;
            if (channels(colour)[3] !== 0) return colour;
        }
        return 'rgb(255, 255, 255)';
    };
    return [...document.querySelectorAll('body *')].filter(
        one => one.checkVisibility()
            && !['SCRIPT', 'title'].includes(one.tagName)
            && [...one.childNodes].some(
                node => node.nodeType === 3 && node.data.trim())
    ).map(one => {
        const style = getComputedStyle(one);
        const drawn = one instanceof SVGElement;
        const scale = drawn ? one.getScreenCTM() : {a: 1, b: 0};
        const both = [drawn ? style.fill : style.color, background(one)].map(
            luminance);
        return [
            one.getAttribute('class') || one.tagName,
            parseFloat(style.fontSize) * Math.hypot(scale.a, scale.b),
            (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05),
        ];
    });
})()
"""


@contextlib.contextmanager
def open_page(width: int, height: int) -> collections.abc.Iterator['Page']:
    """Yield an empty page of so many pixels."""
    # Chromium reads from its descriptor 3 and writes to 4
    read, to_read = os.pipe()
    to_write, write = os.pipe()
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home,
        tempfile.TemporaryFile('w+') as log,
    ):
        process = subprocess.Popen(
            [
                'bash',
                '-c',
                f'exec "$@" 3<&{read} 4>&{write}',
                'bash',
                *_ARGUMENTS,
                f'--user-data-dir={home}/profile',
                f'--window-size={width},{height}',
                'about:blank',
            ],
            env={**os.environ, 'HOME': home},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(read, write),
        )
        os.close(read)
        os.close(write)
        try:
            yield Page(to_write, to_read, width, height)
        except EOFError:
            log.seek(0)
            raise RuntimeError(f'Chromium ended: {log.read()}') from None
        finally:
            os.close(to_read)
            os.close(to_write)
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Page:
    """A page that Chromium shows.

    ``errors`` are the exceptions of scripts and the messages of errors that
    the console has shown.
    """

    def __init__(
        self, reader: int, writer: int, width: int, height: int
    ) -> None:
        self.errors: list[str] = []
        self._reader = reader
        self._writer = writer
        self._ids = itertools.count(1)
        self._received = b''
        self._session: str | None = None
        self._loaded = False
        targets = self.call('Target.getTargets')['targetInfos']
        (target,) = (
            one['targetId'] for one in targets if one['type'] == 'page'
        )
        self._session = self.call(
            'Target.attachToTarget', targetId=target, flatten=True
        )['sessionId']
        for domain in ('Page', 'Runtime', 'Log'):
            self.call(f'{domain}.enable')
        self.resize(width, height)

    def call(self, method: str, **params: typing.Any) -> typing.Any:
        """Call a method of the protocol and return its result."""
        number = next(self._ids)
        message = {'id': number, 'method': method, 'params': params}
        if self._session:
            message['sessionId'] = self._session
        os.write(self._writer, json.dumps(message).encode() + b'\0')
        while (answer := self._receive()).get('id') != number:
            self._note(answer)
        if 'error' in answer:
            raise RuntimeError(f'{method}: {answer["error"]}')
        return answer['result']

    def _receive(self) -> typing.Any:
        end = time.monotonic() + _TIMEOUT
        while b'\0' not in self._received:
            left = max(0.0, end - time.monotonic())
            if not select.select([self._reader], [], [], left)[0]:
                raise TimeoutError('Chromium does not answer')
            read = os.read(self._reader, 1 << 20)
            if not read:
                raise EOFError
            self._received += read
        message, _, self._received = self._received.partition(b'\0')
        return json.loads(message)

    def _note(self, event: typing.Any) -> None:
        params = event.get('params', {})
        match event['method']:
            case 'Page.loadEventFired':
                self._loaded = True
            case 'Runtime.exceptionThrown':
                details = params['exceptionDetails']
                self.errors.append(
                    details.get('exception', {}).get('description')
                    or details['text']
                )
            case 'Runtime.consoleAPICalled' if params['type'] == 'error':
                self.errors.append(str(params['args']))
            case 'Log.entryAdded' if params['entry']['level'] == 'error':
                self.errors.append(params['entry']['text'])

    def resize(self, width: int, height: int, scale: float = 1) -> None:
        """Set the size in pixels of CSS, each of ``scale`` real ones."""
        self.call(
            'Emulation.setDeviceMetricsOverride',
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=False,
        )

    def emulate(self, medium: str = '', scheme: str = 'light') -> None:
        """Show the page on a medium, such as ``print``, in a colour scheme."""
        self.call(
            'Emulation.setEmulatedMedia',
            media=medium,
            features=[{'name': 'prefers-color-scheme', 'value': scheme}],
        )

    def load(self, path: str | os.PathLike[str]) -> None:
        """Show a file, and wait until it is loaded."""
        self.visit(pathlib.Path(path).resolve().as_uri())

    def visit(self, url: str) -> None:
        """Show what is at a URL, and wait until it is loaded."""
        self._loaded = False
        self.call('Page.navigate', url=url)
        while not self._loaded:
            self._note(self._receive())

    def run(self, expression: str) -> typing.Any:
        """Return the value of an expression of JavaScript."""
        answer = self.call(
            'Runtime.evaluate', expression=expression, returnByValue=True
        )
        if 'exceptionDetails' in answer:
            raise RuntimeError(f'{expression}: {answer["exceptionDetails"]}')
        return answer['result'].get('value')

    def texts(self) -> list[tuple[str, float, float]]:
        """Return each element with text that is visible.

        Of each its class or name, the font size in pixels, and the contrast
        as WCAG defines it.
        """
        return [
            (name, size, contrast) for name, size, contrast in self.run(_TEXTS)
        ]

    def click(self, selector: str) -> None:
        """Click on the middle of the first element of a selector."""
        element = f'document.querySelector({json.dumps(selector)})'
        x, y = self.run(
            f'{element}.scrollIntoView({{block: "center"}}); '
            f'(r => [r.x + r.width / 2, r.y + r.height / 2])('
            f'{element}.getBoundingClientRect())'
        )
        for kind in ('mousePressed', 'mouseReleased'):
            self.call(
                'Input.dispatchMouseEvent',
                type=kind,
                x=x,
                y=y,
                button='left',
                clickCount=1,
            )

    def type(self, selector: str, text: str) -> None:
        """Replace the text of a field as a user does."""
        self.click(selector)
        self.run('document.activeElement.select()')
        if text:
            self.call('Input.insertText', text=text)
        else:
            for kind in ('keyDown', 'keyUp'):
                self.call(
                    'Input.dispatchKeyEvent',
                    type=kind,
                    key='Delete',
                    code='Delete',
                    windowsVirtualKeyCode=46,
                )

    def screenshot(self, path: str | os.PathLike[str]) -> None:
        """Write what is visible into a PNG file."""
        data = self.call('Page.captureScreenshot', format='png')['data']
        pathlib.Path(path).write_bytes(base64.b64decode(data))
