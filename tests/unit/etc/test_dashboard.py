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

"""The dashboard and the alerts ask for what there is.

Its queries are read as Prometheus reads them.
"""

import itertools
import json
import pathlib
import re

import promql_parser
import yaml
from oslotest import base

from nova_diskplacer.client import fleet_metrics
from nova_diskplacer.client import vdisk_map
from nova_diskplacer.monitor import metric
from nova_diskplacer.monitor import metrics

TOP = pathlib.Path(__file__).parents[3]
DASHBOARD = TOP / 'etc/grafana/nova-diskplacer.json'

RULES = TOP / 'etc/prometheus/diskplacer.rules.yml'

METRICS = {one.full_name: one for one in metrics.METRICS}

# of agents, and of openstack vdisk capacity
LABELS = {
    **{name: one.labels for name, one in METRICS.items()},
    **{name: labels for name, (labels, _) in fleet_metrics.GAUGES.items()},
}

# Those that say nothing which a panel could show over time.
UNSEEN = {'diskplacer_rounds_total', 'diskplacer_server_exempt'}


def nodes(expression, kind):
    found = []

    def visit(node):
        if isinstance(node, kind):
            found.append(node)

    promql_parser.walk(expression, visit)
    return found


class DashboardTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.dashboard = json.loads(DASHBOARD.read_text())
        self.panels = self.dashboard['panels']
        self.variables = self.dashboard['templating']['list']
        self.targets = [
            target
            for panel in self.panels
            for target in panel.get('targets', ())
        ]

    def expressions(self):
        """Return the queries, with an interval for Grafana's variable."""
        for target in self.targets:
            text = target['expr'].replace('$__rate_interval', '1m')
            yield target, promql_parser.parse(text)

    def test_it_has_a_row_for_each_subject(self):
        rows = [
            panel['title'] for panel in self.panels if panel['type'] == 'row'
        ]
        self.assertEqual(
            [
                'Capacity and health',
                'Disks',
                'Servers',
                'Weights and decisions',
                'Elastic vdisks',
                'Servers that have moved',
                'Warnings',
            ],
            rows,
        )

    def test_queries_ask_for_metrics_and_labels_that_exist(self):
        for _, expression in self.expressions():
            selectors = nodes(expression, promql_parser.VectorSelector)
            self.assertNotEqual([], selectors)
            for selector in selectors:
                labels = METRICS[selector.name].labels
                for matcher in selector.matchers.matchers:
                    self.assertIn(matcher.name, labels)

    def test_counters_are_asked_for_their_rate_and_gauges_are_not(self):
        for _, expression in self.expressions():
            rated = {
                str(node.vector_selector)
                for node in nodes(expression, promql_parser.MatrixSelector)
            }
            for selector in nodes(expression, promql_parser.VectorSelector):
                counter = METRICS[selector.name].kind == metric.COUNTER
                self.assertEqual(counter, str(selector) in rated)

    def test_labels_that_are_grouped_by_exist(self):
        for _, expression in self.expressions():
            for node in nodes(expression, promql_parser.AggregateExpr):
                if node.modifier is not None:
                    for selector in nodes(
                        node.expr, promql_parser.VectorSelector
                    ):
                        self.assertLessEqual(
                            set(node.modifier.labels),
                            set(METRICS[selector.name].labels),
                        )

    def test_labels_that_are_joined_on_exist(self):
        for _, expression in self.expressions():
            for node in nodes(expression, promql_parser.BinaryExpr):
                if node.modifier is None or node.modifier.matching is None:
                    continue
                (info,) = nodes(node.rhs, promql_parser.VectorSelector)
                self.assertLessEqual(
                    {
                        *node.modifier.matching.labels,
                        *(node.modifier.group_labels or ()),
                    },
                    set(METRICS[info.name].labels),
                )

    def test_legends_name_labels_that_are_left(self):
        for target, expression in self.expressions():
            selectors = nodes(expression, promql_parser.VectorSelector)
            left = set(METRICS[selectors[0].name].labels)
            for node in nodes(expression, promql_parser.AggregateExpr):
                if node.modifier is not None:
                    left = set(node.modifier.labels)
            for node in nodes(expression, promql_parser.BinaryExpr):
                if node.modifier is not None and node.modifier.group_labels:
                    left.update(node.modifier.group_labels)
            named = re.findall(r'{{(\w+)}}', target['legendFormat'])
            self.assertLessEqual(set(named), left, target['expr'])

    def test_every_metric_is_shown(self):
        shown = {
            selector.name
            for _, expression in self.expressions()
            for selector in nodes(expression, promql_parser.VectorSelector)
        }
        # a variable is made of it
        shown.add('diskplacer_agent_info')
        self.assertEqual(set(METRICS) - UNSEEN, shown)

    def test_variables_ask_for_metrics_and_labels_that_exist(self):
        for variable in self.variables:
            if variable['type'] == 'datasource':
                continue
            self.assertEqual(
                variable['definition'], variable['query']['query']
            )
            selector, label = re.fullmatch(
                r'label_values\((.+), (\w+)\)', variable['definition']
            ).groups()
            parsed = promql_parser.parse(selector)
            labels = METRICS[parsed.name].labels
            self.assertIn(label, labels)
            for matcher in parsed.matchers.matchers:
                self.assertIn(matcher.name, labels)

    def test_only_variables_that_exist_are_used(self):
        names = {variable['name'] for variable in self.variables}
        text = DASHBOARD.read_text()
        used = set(re.findall(r'\$\{?(\w+)', text)) - {'__rate_interval'}
        # all of a variable's values are chosen at first
        self.assertEqual(names, used - {'__all'})

    def test_everything_asks_the_datasource_that_is_chosen(self):
        chosen = {'type': 'prometheus', 'uid': '${datasource}'}
        for part in (
            *self.targets,
            *(panel for panel in self.panels if panel['type'] != 'row'),
            *(v for v in self.variables if v['type'] == 'query'),
        ):
            self.assertEqual(chosen, part['datasource'])

    def test_panels_do_not_overlap(self):
        ids = [panel['id'] for panel in self.panels]
        self.assertEqual(len(ids), len(set(ids)))
        places = [panel['gridPos'] for panel in self.panels]
        for place in places:
            self.assertLessEqual(place['x'] + place['w'], 24)
        for one, other in itertools.combinations(places, 2):
            self.assertTrue(
                one['x'] + one['w'] <= other['x']
                or other['x'] + other['w'] <= one['x']
                or one['y'] + one['h'] <= other['y']
                or other['y'] + other['h'] <= one['y']
            )


class RulesTest(base.BaseTestCase):
    """The functional tests have Prometheus evaluate the rules."""

    def setUp(self):
        super().setUp()
        self.rules = [
            rule
            for group in yaml.safe_load(RULES.read_text())['groups']
            for rule in group['rules']
        ]

    def test_rules_ask_for_metrics_and_labels_that_exist(self):
        for rule in self.rules:
            for selector in nodes(
                promql_parser.parse(rule['expr']), promql_parser.VectorSelector
            ):
                if selector.name == 'up':
                    continue
                labels = LABELS[selector.name]
                for matcher in selector.matchers.matchers:
                    self.assertIn(matcher.name, labels)

    def test_a_claim_is_pending_for_as_long_as_in_the_map(self):
        (rule,) = (
            rule
            for rule in self.rules
            if rule['alert'] == 'DiskplacerClaimsPending'
        )
        (limit,) = nodes(
            promql_parser.parse(rule['expr']), promql_parser.NumberLiteral
        )
        self.assertEqual(60 * vdisk_map.PENDING_MINUTES, limit.val)
        self.assertNotIn('for', rule)

    def test_every_alert_says_how_bad_it_is_and_what_to_do(self):
        for rule in self.rules:
            self.assertIn(
                rule['labels']['severity'], ('critical', 'warning', 'info')
            )
            self.assertEqual(
                {'summary', 'description'}, set(rule['annotations'])
            )
