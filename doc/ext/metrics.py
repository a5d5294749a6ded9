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


"""Directive ``metrics``: what the agent tells Prometheus.

``.. metrics:: agent`` becomes the metrics of the agent itself; ``disk``,
``server`` and ``vdisk`` do for the others. Made from what the agent exposes.
"""

from docutils import nodes
from docutils import statemachine
from sphinx.application import Sphinx
from sphinx.util import docutils
from sphinx.util import nodes as sphinx_nodes

from nova_diskplacer.monitor import metric as metric_
from nova_diskplacer.monitor import metrics


def subject(metric: metric_.Metric) -> str:
    """Return what a metric is of: the first of these labels that it has."""
    for label in ('server', 'disk', 'vdisk'):
        if label in metric.labels:
            return label
    return 'agent'


def lines(of: str) -> list[str]:
    """Return the metrics of a subject as reStructuredText."""
    text = []
    for metric in metrics.METRICS:
        if subject(metric) == of:
            labels = ', '.join(f'``{label}``' for label in metric.labels)
            unit = f', in {metric.unit.replace("_", " ")}'
            text += [
                f'``{metric.full_name}``',
                f'    :Type: {metric.kind}{unit if metric.unit else ""}',
                f'    :Labels: {labels}',
                '',
                f'    {metric.text}',
                '',
            ]
    return text


class Metrics(docutils.SphinxDirective):
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        text = lines(self.arguments[0])
        if not text:
            raise self.error(f'there are no metrics of {self.arguments[0]}')
        source = statemachine.StringList(text, source=metrics.__file__)
        node = nodes.section(document=self.state.document)
        sphinx_nodes.nested_parse_with_titles(self.state, source, node)
        self.env.note_dependency(metrics.__file__)
        return node.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive('metrics', Metrics)
    return {'parallel_read_safe': True}
