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


"""Directives ``fidelity…``, and roles, for figures of papers and ours.

They are made from the tables in ``benchmarks/fidelity`` and the results of
benchmarks in ``benchmarks/results``. ``.. fidelity:: P4`` becomes the tables
of a paper, ``.. fidelity-summary::`` counts their rows, and
``.. fidelity-results::`` lists the results. The role ``measured`` with the
text ``RESULT FIGURE [UNIT]`` is a figure of a result with its interval, or
*not measured*; ``verdict`` with the text ``PAPER FIGURE`` is the verdict on
the first claim of a paper that a figure answers. ``.. goals:: RESULT`` lists
the goals of a benchmark, and the role ``goal`` with the text ``RESULT FIGURE``
says whether the goal of a figure is met or missed. A page that shows figures
ends with a note on their results: how they came, and whether the code that
they measured has changed since.
"""

import collections.abc
import typing

from docutils import nodes
from docutils import statemachine
from docutils import utils as docutils_utils
from docutils.parsers import rst
from sphinx import transforms
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import docutils
from sphinx.util import nodes as sphinx_nodes

import _fidelity
import _results
import fidelity_text
import goal_text


def _depend(env: BuildEnvironment) -> None:
    for path in (
        _results.DIRECTORY,
        *_fidelity.TABLES.iterdir(),
        *_results.DIRECTORY.glob('*.json'),
    ):
        env.note_dependency(str(path))


def _used(env: BuildEnvironment) -> set[str]:
    """Return the results that the page that is read shows, to be added to."""
    used: set[str] = env.current_document.setdefault('measured', set())
    return used


def _parsed(state: typing.Any, lines: list[str]) -> list[nodes.Node]:
    source = statemachine.StringList(lines, source=str(_fidelity.TABLES))
    node = nodes.section(document=state.document)
    sphinx_nodes.nested_parse_with_titles(state, source, node)
    return node.children


class Generated(docutils.SphinxDirective):
    """Puts lines of reStructuredText where it stands."""

    def lines(
        self,
        papers: collections.abc.Mapping[str, _fidelity.Paper],
        results: _results.Results,
    ) -> list[str]:
        raise NotImplementedError

    def used(self, results: _results.Results) -> list[str]:
        """Return the names of the results whose figures are shown."""
        return []

    def run(self) -> list[nodes.Node]:
        _depend(self.env)
        try:
            results = _results.read()
            lines = self.lines(_fidelity.read(), results)
        except ValueError as error:
            raise self.error(str(error)) from error
        _used(self.env).update(self.used(results))
        return _parsed(self.state, lines)


class Fidelity(Generated):
    required_arguments = 1

    def lines(self, papers, results):
        return fidelity_text.paper_lines(papers[self.arguments[0]], results)


class FidelitySummary(Generated):
    def lines(self, papers, results):
        return fidelity_text.summary_lines(papers, results)


class FidelityResults(Generated):
    def lines(self, papers, results):
        return fidelity_text.result_lines(results)


class Goals(Generated):
    required_arguments = 1

    def lines(self, papers, results):
        if self.arguments[0] not in results:
            return ['No result is committed yet.', '']
        rows = goal_text.rows(results[self.arguments[0]])
        return fidelity_text.table([40, 14, 34, 12], rows)

    def used(self, results):
        return self.arguments


class MeasuredRole(docutils.SphinxRole):
    def run(
        self,
    ) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        _depend(self.env)
        try:
            text = fidelity_text.measured(_results.read(), self.text)
        except ValueError as error:
            message = self.inliner.reporter.error(str(error), line=self.lineno)
            return [], [message]
        _used(self.env).add(self.text.split()[0])
        return [nodes.Text(text)], []


class VerdictRole(docutils.SphinxRole):
    def run(
        self,
    ) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        _depend(self.env)
        try:
            text = fidelity_text.verdict(
                _fidelity.read(), _results.read(), self.text
            )
        except ValueError as error:
            message = self.inliner.reporter.error(str(error), line=self.lineno)
            return [], [message]
        return [nodes.emphasis(text, text)], []


class GoalRole(docutils.SphinxRole):
    def run(
        self,
    ) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        _depend(self.env)
        try:
            text = goal_text.state(_results.read(), self.text)
        except ValueError as error:
            message = self.inliner.reporter.error(str(error), line=self.lineno)
            return [], [message]
        _used(self.env).add(self.text.split()[0])
        return [nodes.emphasis(text, text)], []


class Note(transforms.SphinxTransform):
    """Ends a page with the note on the results that it shows."""

    default_priority = 100

    def apply(self, **kwargs: typing.Any) -> None:
        used = self.env.current_document.get('measured')
        if not used:
            return
        lines = fidelity_text.note_lines(_results.read(), used)
        settings = self.document.settings
        document = docutils_utils.new_document('note', settings)
        rst.Parser().parse('\n'.join(lines), document)
        page = self.document.next_node(nodes.section) or self.document
        page += document.children


def setup(app: Sphinx) -> dict[str, typing.Any]:
    """Register the directives and the role."""
    app.add_directive('fidelity', Fidelity)
    app.add_directive('fidelity-summary', FidelitySummary)
    app.add_directive('fidelity-results', FidelityResults)
    app.add_role('measured', MeasuredRole())
    app.add_directive('goals', Goals)
    app.add_role('goal', GoalRole())
    app.add_role('verdict', VerdictRole())
    app.add_transform(Note)
    return {'parallel_read_safe': True}
