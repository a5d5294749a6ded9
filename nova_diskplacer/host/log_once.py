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

"""Logs lasting conditions when they begin and change."""

import collections.abc
import logging
from typing import Any


class ChangeLogger:
    """Logs a message about a subject unless it repeats the last one.

    A caller that handles an exception should log after the handler:
    oslo.log appends the exception that is being handled.
    """

    def __init__(
        self,
        logger: 'logging.Logger | logging.LoggerAdapter[Any]',
        level: int = logging.WARNING,
    ) -> None:
        self._logger = logger
        self._level = level
        self._last: dict[collections.abc.Hashable, str] = {}

    def log(
        self,
        subject: collections.abc.Hashable,
        message: str,
        *arguments: object,
    ) -> None:
        """Log a message if it is not the last one about the subject."""
        text = message % arguments
        if self._last.get(subject) != text:
            self._last[subject] = text
            self._logger.log(self._level, message, *arguments)

    def clear(self, subject: collections.abc.Hashable) -> bool:
        """Forget a subject's last message; returns whether there was one."""
        return self._last.pop(subject, None) is not None

    def clear_except(
        self, subjects: collections.abc.Container[collections.abc.Hashable]
    ) -> None:
        """Forget the last messages of all other subjects."""
        for subject in list(self._last):
            if subject not in subjects:
                del self._last[subject]
