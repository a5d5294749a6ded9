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

import contextlib
import random
import re
import socket
import ssl
import subprocess
import urllib.request

import fixtures
from oslo_config import cfg
from oslo_config import fixture as config_fixture
from oslotest import base
from prometheus_client import parser
from prometheus_client.openmetrics import parser as strict_parser

from nova_diskplacer import conf as options
from nova_diskplacer import exception
from nova_diskplacer.agent import exporters
from nova_diskplacer.elastic.processes import step_socket
from nova_diskplacer.monitor import host_status
from nova_diskplacer.monitor import io_metrics
from nova_diskplacer.monitor import metric as metric_
from nova_diskplacer.monitor import metrics
from nova_diskplacer.monitor import status_socket
from nova_diskplacer.monitor import types
from nova_diskplacer.placement import inventory
from tests.unit.nova_diskplacer.monitor import example

OPENMETRICS = 'application/openmetrics-text; version=1.0.0'

# What https://prometheus.io/docs/practices/naming/ calls base units.
UNITS = {
    '', 'bytes', 'bytes_per_second', 'celsius', 'joules', 'ratio', 'seconds',
}  # fmt: skip


def free_port():
    """Return a port below those that outgoing connections are given."""
    while True:
        port = random.randint(10000, 19999)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(('127.0.0.1', port))
            return port


class ServedTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.dir = self.useFixture(fixtures.TempDir()).path
        self.port = free_port()
        self.conf = cfg.ConfigOpts()
        # takes back what is overridden: groups of options share it
        self.overridden = self.useFixture(config_fixture.Config(self.conf))
        options.register_opts(self.conf)
        self.conf([], project='nova', default_config_files=[])
        self.override('metrics_port', self.port)
        self.override('state_dir', self.dir, 'diskplacer_agent')

    def override(self, name, value, group='diskplacer_monitor'):
        self.overridden.config(group=group, **{name: value})

    def serve(self, take, take_host=None):
        server = exporters.serve_metrics(
            self.conf, take, take_host or example.host_status_provider()
        )
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)

    def get(self, accept='*/*', host='127.0.0.1', context=None):
        scheme = 'https' if context else 'http'
        request = urllib.request.Request(  # noqa: S310
            f'{scheme}://{host}:{self.port}/metrics',
            headers={'Accept': accept},
        )
        with urllib.request.urlopen(  # noqa: S310
            request, timeout=120, context=context
        ) as answer:
            return answer.read().decode()

    def families(self):
        return {
            family.name: family
            for family in parser.text_string_to_metric_families(self.get())
        }

    def samples(self):
        return {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in self.families().values()
            for sample in family.samples
        }


class MetricsTest(ServedTest):
    def test_every_metric_is_there_with_its_labels_and_help(self):
        self.serve(example.status_provider())
        families = self.families()
        for metric in metrics.METRICS:
            exposed = metric.full_name
            name = exposed.removesuffix('_total')
            self.assertEqual(metric.text, families[name].documentation)
            self.assertEqual(
                {metric_.INFO: 'gauge'}.get(metric.kind, metric.kind),
                families[name].type,
            )
            self.assertNotEqual([], families[name].samples)
            for sample in families[name].samples:
                self.assertEqual(exposed, sample.name)
                self.assertEqual(set(metric.labels), set(sample.labels))

    def test_openmetrics_is_as_the_strict_parser_wants_it(self):
        self.serve(example.status_provider())
        text = self.get(accept=OPENMETRICS)
        self.assertTrue(text.endswith('# EOF\n'))
        names = {
            family.name
            for family in strict_parser.text_string_to_metric_families(text)
        }
        for metric in metrics.METRICS:
            self.assertIn(f'diskplacer_{metric.name}', names)

    def test_figures_are_those_of_the_round(self):
        self.serve(example.status_provider())
        samples = self.samples()
        on_disk = (('disk', example.HDD), ('host', 'compute-3'))
        for name, value in {
            'disk_read_bytes_total': 202e6,
            'disk_busy_seconds_total': 1.5,
            'disk_request_seconds_total': 25,
            'disk_speed_bytes_per_second': 160e6,
            'disk_turn_seconds': 0.012,
            'disk_weights_cost_ratio': 0.18,
            'disk_score_bytes_per_second': 67e6,
            'disk_pressure_ratio': 0.5,
            'disk_temperature_celsius': 61,
            'disk_weights_error': 0,
            'disk_idle': 1,
            'disk_idle_seconds': 900,
            'disk_standby': 1,
            'disk_standby_seconds_total': 600,
            'disk_energy_saved_joules_total': 2400,
        }.items():
            self.assertEqual(value, samples[f'diskplacer_{name}', *on_disk])
        for kind in types.WARNINGS:
            self.assertEqual(
                kind == types.TEMPERATURE,
                samples['diskplacer_disk_warnings', *on_disk, ('kind', kind)],
            )
        pair = (*on_disk, ('project', 'alpha'), ('server', example.LONG))
        for name, value in {
            'server_read_bytes_total': 300e6,
            'server_written_bytes_total': 150e6,
            'server_class': 1,
            'server_weight': 5,
            'server_used_bytes': 3e9,
            'server_seeker': 1,
            'server_budget_ratio': 2.97,
        }.items():
            self.assertEqual(value, samples[f'diskplacer_{name}', *pair])

    def test_resources_of_servers(self):
        self.serve(example.status_provider())
        samples = self.samples()
        server = (
            ('host', 'compute-3'),
            ('project', 'beta'),
            ('server', example.SMALL),
        )
        for name, value in {
            'cpu_seconds_total': 12.5,
            'memory_bytes': 2 << 30,
            'memory_used_bytes': 1 << 30,
        }.items():
            self.assertEqual(
                value, samples[f'diskplacer_server_{name}', *server]
            )
        for direction, interface, value in (
            ('received', 'tap0', 90),
            ('received', 'tap1', 5),
            ('transmitted', 'tap0', 70),
            ('transmitted', 'tap1', 6),
        ):
            name = f'diskplacer_server_network_{direction}_bytes_total'
            host, *labels = server
            key = name, host, ('interface', interface), *labels
            self.assertEqual(value, samples[key])

    def test_elastic_vdisks(self):
        self.serve(example.status_provider())
        samples = self.samples()
        vdisk = (('host', 'compute-3'), ('vdisk', example.VOLUME))
        for name, value in {
            'width': 1,
            'pressure_ratio': 0.9,
            'use_ratio': 0.8,
            'move_target_width': 2,
            'move_left_bytes': 1.5 * 2**30,
        }.items():
            self.assertEqual(
                value, samples[f'diskplacer_vdisk_{name}', *vdisk]
            )
        for direction, outcome, value in (
            ('widen', 'done', 3),
            ('widen', 'failed', 1),
            ('narrow', 'done', 2),
        ):
            key = (
                'diskplacer_elastic_moves_total',
                ('direction', direction),
                ('host', 'compute-3'),
                ('outcome', outcome),
            )
            self.assertEqual(value, samples[key])

    def test_what_is_not_known_is_absent(self):
        self.serve(example.status_provider(decision=None))
        families = self.families()
        for name in ('class', 'weight', 'used_bytes'):
            self.assertEqual([], families[f'diskplacer_server_{name}'].samples)
        (score,) = families['diskplacer_disk_score_bytes_per_second'].samples
        self.assertEqual(example.HDD, score.labels['disk'])
        for name in ('standby', 'standby_seconds', 'energy_saved_joules'):
            (sample,) = families[f'diskplacer_disk_{name}'].samples
            self.assertEqual(example.HDD, sample.labels['disk'])

    def test_before_the_first_round_there_is_no_io(self):
        self.serve(lambda: None)
        names = set(self.families())
        self.assertIn('process_cpu_seconds', names)
        self.assertIn('diskplacer_disk_health', names)
        self.assertFalse(
            {f'diskplacer_{one.name}' for one in io_metrics.METRICS} & names
        )

    def test_capacity_and_health(self):
        self.serve(example.status_provider())
        samples = self.samples()
        host = ('host', 'compute-3')
        disk = (('disk', example.HDD), host)
        lost = (('disk', example.LOST), host)
        gib = 1 << 30
        for name, value in {
            'capacity_bytes': 1000 * gib,
            'claimed_bytes': 400 * gib,
            'reserved_bytes': 100 * gib,
            'free_bytes': 500 * gib,
            'pending_bytes': 200 * gib,
            'pending_since_timestamp_seconds': 900,
            'vdisks': 5,
        }.items():
            self.assertEqual(value, samples[f'diskplacer_disk_{name}', *disk])
        self.assertNotIn(('diskplacer_disk_free_bytes', *lost), samples)
        for key, health, value in (
            (disk, 'ok', 1),
            (disk, 'missing', 0),
            (lost, 'ok', 0),
            (lost, 'missing', 1),
        ):
            self.assertEqual(
                value,
                samples[
                    'diskplacer_disk_health', key[0], ('health', health), host
                ],
            )
        for name, value in {
            'last_disk_check_timestamp_seconds': 999,
            'last_placement_update_timestamp_seconds': 990,
            'last_report_timestamp_seconds': 980,
            'placement_errors_total': 2,
            'report_errors_total': 3,
        }.items():
            self.assertEqual(value, samples[f'diskplacer_{name}', host])
        self.assertEqual(
            4,
            samples[
                'diskplacer_bind_failures_total', host, ('reason', 'refused')
            ],
        )

    def test_vdisks_that_settle(self):
        self.serve(lambda: None, example.host_status_provider())
        samples = self.samples()
        key = ('host', 'compute-3'), ('source', 'compute-1')
        vdisk = ('vdisk', 'v')
        self.assertEqual(
            60, samples['diskplacer_settling_remaining_bytes', *key, vdisk]
        )
        self.assertLess(
            1e9, samples['diskplacer_settling_stalled_seconds', *key, vdisk]
        )
        for state, value in (('copying', 1), ('away', 0), ('failed', 0)):
            self.assertEqual(
                value,
                samples[
                    'diskplacer_settling_state', *key, ('state', state), vdisk
                ],
            )

    def test_oversold_disks_have_no_negative_room(self):
        figures = inventory.DiskFigures(100, 60, 50, 150, 0)
        disk = host_status.Disk(example.HDD, 'ok', 0, figures)
        self.serve(lambda: None, example.host_status_provider(disks=[disk]))
        key = (('disk', example.HDD), ('host', 'compute-3'))
        self.assertEqual(0, self.samples()['diskplacer_disk_free_bytes', *key])

    def test_an_unreadable_disk_root_has_no_disks(self):
        self.serve(lambda: None, example.host_status_provider(disks=None))
        families = self.families()
        self.assertEqual([], families['diskplacer_disk_health'].samples)
        self.assertIn('diskplacer_last_disk_check_timestamp_seconds', families)

    def test_series_of_servers_can_be_switched_off(self):
        self.override('server_metrics', False)
        self.serve(example.status_provider())
        names = set(self.families())
        self.assertIn('diskplacer_disk_pressure_ratio', names)
        self.assertFalse({one for one in names if '_server_' in one})
        self.assertNotIn(example.LONG, self.get())

    def test_labels_may_hold_anything(self):
        odd = 'x.slice/a"b\\c\nd.service'
        self.serve(
            example.status_provider(
                example.make_sample(((odd, example.HDD),) * 4)
            )
        )
        (sample, *_) = self.families()['diskplacer_server_reads'].samples
        self.assertEqual(odd, sample.labels['server'])

    def test_a_client_that_stays_silent_is_given_up(self):
        self.serve(example.status_provider())
        with (
            # whoever is not silent may be as slow as that
            fixtures.MonkeyPatch(
                'nova_diskplacer.agent.exporters._TimeoutHandler.timeout',
                0.05,
            ),
            socket.create_connection(('127.0.0.1', self.port)) as silent,
        ):
            silent.settimeout(120)
            self.assertEqual(b'', silent.recv(1))
        self.assertIn('diskplacer_rounds_total', self.get())

    def test_ipv6(self):
        self.override('metrics_host', '::1')
        self.serve(example.status_provider())
        self.assertIn('diskplacer_rounds_total', self.get(host='[::1]'))


class NamesTest(base.BaseTestCase):
    def test_names_follow_the_conventions(self):
        for metric in metrics.METRICS:
            name = metric.full_name
            self.assertTrue(re.fullmatch('[a-z]+(_[a-z]+)+', name), name)
            self.assertIn(metric.unit, UNITS)
            self.assertTrue(metric.name.endswith(metric.unit), name)
            self.assertEqual(
                metric.kind == metric_.COUNTER, name.endswith('_total'), name
            )

    def test_names_are_unique(self):
        names = [metric.full_name for metric in metrics.METRICS]
        self.assertEqual(len(names), len(set(names)))

    def test_series_are_bounded(self):
        """Each is of a host, disk, server, server on a disk or a vdisk."""
        few = {
            'direction', 'health', 'interface', 'kind', 'outcome', 'reason',
            'state',
        }  # fmt: skip
        bounded = {
            metric_.AGENT,
            (*metric_.AGENT, 'vdisk'),
            # a vdisk has one source at a time
            (*metric_.AGENT, 'vdisk', 'source'),
            metric_.DISK,
            metric_.SERVER,
            metric_.SERVER_ON_DISK,
        }
        for one in metrics.METRICS:
            # what an info tells more is one value at a time for each, and
            # these labels have a few values
            whose = tuple(label for label in one.labels if label not in few)
            if one.kind == metric_.INFO:
                whose = metric_.DISK if 'disk' in whose else metric_.AGENT
                self.assertEqual(whose, one.labels[: len(whose)])
            self.assertIn(whose, bounded)


class ServeTest(ServedTest):
    def start_exporters(self):
        exporters.start_exporters(
            self.conf,
            example.status_provider(),
            example.host_status_provider(),
            lambda: example.elastic_status().step,
        )

    def test_a_port_in_use_is_a_warning(self):
        with socket.socket() as other:
            other.bind(('127.0.0.1', self.port))
            other.listen()
            self.start_exporters()
        (line,) = self.log.output.splitlines()
        self.assertIn(f'127.0.0.1 port {self.port}', line)
        self.assertIn('[diskplacer_monitor]', line)
        self.assertIn('in use', line)
        # the rest works
        self.assertEqual(
            example.status_provider()(), status_socket.fetch(self.dir)
        )
        self.assertEqual(
            example.elastic_status().step, step_socket.fetch(self.dir)
        )

    def test_no_socket_is_a_warning(self):
        self.override('state_dir', '/proc/no/such', 'diskplacer_agent')
        self.start_exporters()
        lines = self.log.output.splitlines()
        self.assertEqual(2, len(lines), lines)
        for line in lines:
            self.assertIn('[diskplacer_agent] state_dir', line)
        self.assertIn('diskplacer_rounds_total', self.get())

    def test_no_metrics_may_be_wanted(self):
        self.override('metrics_port', 0)
        self.assertIsNone(
            exporters.serve_metrics(
                self.conf,
                example.status_provider(),
                example.host_status_provider(),
            )
        )


class TLSTest(ServedTest):
    """Real certificates, made by openssl."""

    def make_certificates(self):
        """Make one for 127.0.0.1, which is its own authority."""
        self.certificate = f'{self.dir}/cert.pem'
        self.key = f'{self.dir}/key.pem'
        subprocess.run(  # noqa: S603
            [  # noqa: S607
                'openssl', 'req', '-x509', '-newkey', 'ec', '-nodes',
                '-pkeyopt', 'ec_paramgen_curve:prime256v1',
                '-subj', '/CN=agent', '-addext', 'subjectAltName=IP:127.0.0.1',
                '-keyout', self.key, '-out', self.certificate,
            ],
            check=True,
            capture_output=True,
        )  # fmt: skip
        self.override('metrics_certfile', self.certificate)
        self.override('metrics_keyfile', self.key)

    def client(self):
        return ssl.create_default_context(cafile=self.certificate)

    def test_https(self):
        self.make_certificates()
        self.serve(example.status_provider())
        text = self.get(context=self.client())
        self.assertIn('diskplacer_rounds_total', text)
        # no http
        self.assertRaises(OSError, self.get)

    def test_certificates_of_clients(self):
        self.make_certificates()
        self.override('metrics_client_cafile', self.certificate)
        self.serve(example.status_provider())
        stranger, known = self.client(), self.client()
        known.load_cert_chain(self.certificate, self.key)
        self.assertRaises(OSError, self.get, context=stranger)
        self.assertIn('diskplacer_rounds_total', self.get(context=known))

    def test_a_silent_client_does_not_keep_others_out(self):
        self.make_certificates()
        self.serve(example.status_provider())
        with socket.create_connection(('127.0.0.1', self.port)):
            text = self.get(context=self.client())
        self.assertIn('diskplacer_rounds_total', text)

    def test_half_of_the_options_serves_nothing(self):
        for name, missing in (
            ('metrics_certfile', 'metrics_keyfile'),
            ('metrics_keyfile', 'metrics_certfile'),
            ('metrics_client_cafile', 'metrics_certfile'),
        ):
            self.override(name, '/some/file')
            error = self.assertRaises(
                exception.ContentionError, self.serve, lambda: None
            )
            self.assertIn(f'[diskplacer_monitor] {missing}', str(error))
            self.override(name, None)

    def test_a_missing_file_is_a_warning(self):
        self.override('metrics_certfile', '/none.pem')
        self.override('metrics_keyfile', '/none.key')
        error = self.assertRaises(
            exception.ContentionError, self.serve, lambda: None
        )
        self.assertIn('/none.pem', str(error))
        self.assertIn('[diskplacer_monitor]', str(error))
