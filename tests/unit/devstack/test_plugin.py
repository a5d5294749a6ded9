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


"""The DevStack plugin, with DevStack's own functions stood in for."""

import os
import pathlib
import re
import stat
import subprocess

import fixtures
import testtools

PLUGIN = pathlib.Path(__file__).parents[3] / 'devstack'
STANDINS = pathlib.Path(__file__).with_name('standins.sh')

PIPELINES = (
    'composite:openstack_compute_api_v21',
    'composite:openstack_compute_api_v21_legacy_v2_compatible',
)

# As stack.sh does it: plugins know nothing of their functions before the
# phase pre-install, and configure_cinder goes through the backends.
STACK = """
. {plugin}/settings
. {plugin}/plugin.sh stack pre-install
. {plugin}/plugin.sh stack install
for backend in ${{CINDER_ENABLED_BACKENDS//,/ }}; do
    if type configure_cinder_backend_${{backend%%:*}} > /dev/null 2>&1; then
        configure_cinder_backend_${{backend%%:*}} ${{backend##*:}}
    fi
done
. {plugin}/plugin.sh stack post-config
. {plugin}/plugin.sh stack extra
. {plugin}/plugin.sh stack test-config
"""
UNSTACK = """
. {plugin}/settings
. {plugin}/plugin.sh unstack
"""
CLEANUP_CINDER = """
. {plugin}/settings
. {plugin}/plugin.sh unstack
cleanup_cinder_backend_vdisk vdisk
"""
CLEAN = """
. {plugin}/settings
. {plugin}/plugin.sh clean
"""


class PluginTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.state = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.data = self.state / 'data' / 'diskplacer'

    def run_script(self, script, **knobs):
        """Run a script after the stand-ins; return what it prints."""
        done = self._run(script, knobs)
        self.assertEqual((0, ''), (done.returncode, done.stderr))
        return done.stdout

    def fail_script(self, script, **knobs):
        """Run a script that fails; return its errors."""
        done = self._run(script, knobs)
        self.assertEqual(1, done.returncode)
        return done.stderr

    def _run(self, script, knobs):
        script = f'. {STANDINS}\n' + script.format(plugin=PLUGIN)
        return subprocess.run(
            ['bash', '-c', script],
            env={'PATH': os.environ['PATH'], 'STATE': self.state, **knobs},
            capture_output=True,
            text=True,
        )

    def lines(self, name):
        return (self.state / name).read_text().splitlines()

    def calls(self, start):
        return [line for line in self.lines('calls') if line.startswith(start)]

    def options(self):
        """Return {(file, section, option): [value, ...]}."""
        found = {}
        for line in self.lines('ini'):
            file, section, option, value = line.split(' ', 3)
            name = pathlib.PurePath(file).name
            found.setdefault((name, section, option), []).append(value)
        return found

    def test_stack_lets_the_driver_start_its_helper(self):
        self.run_script(STACK)
        filters = self.state / 'cinder' / 'rootwrap.d' / 'vdisk-mapper.filters'
        self.assertIn('cinder_vdisk_mapper.privsep', filters.read_text())

    def test_stack_configures_every_service(self):
        self.run_script(STACK)
        self.assertEqual(
            {
                ('nova.conf', 'filter_scheduler', 'available_filters'): [
                    'nova.scheduler.filters.all_filters',
                    'nova_diskplacer.scheduler.filter.DiskPlacementFilter',
                ],
                ('nova.conf', 'filter_scheduler', 'enabled_filters'): [
                    'ComputeFilter,SameHostFilter,NUMATopologyFilter,'
                    'DiskPlacementFilter'
                ],
                ('nova.conf', 'filter_scheduler', 'weight_classes'): [
                    'nova.scheduler.weights.all_weighers,'
                    'nova_diskplacer.scheduler.weigher.DiskPlacementWeigher,'
                    'nova_diskplacer.scheduler.pressure_weigher.'
                    'DiskPressureWeigher'
                ],
                (
                    'nova.conf',
                    'diskplacer_scheduler',
                    'disk_placement_weight_multiplier',
                ): ['10.0'],
                (
                    'nova.conf',
                    'diskplacer_scheduler',
                    'disk_pressure_weight_multiplier',
                ): ['10.0'],
                ('nova.conf', 'diskplacer_api', 'volume_type'): ['vdisk'],
                (
                    'api-paste.ini',
                    'filter:diskplacer',
                    'paste.filter_factory',
                ): ['nova_diskplacer.api.blank_volumes:BlankVolumes.factory'],
                **{
                    ('api-paste.ini', section, 'keystone'): [
                        'authtoken keystonecontext diskplacer app_v21'
                    ]
                    for section in PIPELINES
                },
                ('nova.conf', 'api', 'vendordata_providers'): [
                    'StaticJSON,DynamicJSON'
                ],
                ('nova.conf', 'api', 'vendordata_dynamic_targets'): [
                    'cloud-init@http://127.0.0.1:9749/'
                ],
                **{
                    ('nova.conf', 'api', f'vendordata_dynamic_{phase}'): ['1']
                    for phase in ('connect_timeout', 'read_timeout')
                },
                ('nova.conf', 'vendordata_dynamic_auth', 'username'): ['nova'],
                ('vendordata.conf', 'DEFAULT', 'debug'): ['True'],
                ('vendordata.conf', 'keystone_authtoken', 'username'): [
                    'nova'
                ],
                ('vendordata.conf', 'diskplacer_vendordata', 'username'): [
                    'nova'
                ],
                ('vendordata.conf', 'diskplacer_vendordata', 'region_name'): [
                    'RegionOne'
                ],
                ('vendordata.conf', 'diskplacer_vendordata', 'timeout'): ['1'],
                ('cinder.conf', 'vdisk', 'volume_driver'): [
                    'cinder_vdisk_mapper.driver.VDiskMapperDriver'
                ],
                ('cinder.conf', 'vdisk', 'volume_backend_name'): ['vdisk'],
                ('cinder.conf', 'vdisk', 'vdisk_disk_root'): [
                    f'{self.state}/disks'
                ],
                ('cinder.conf', 'vdisk', 'vdisk_default_mapping'): [
                    'round_robin'
                ],
                ('cinder.conf', 'DEFAULT', 'scheduler_default_filters'): [
                    'AvailabilityZoneFilter,CapabilitiesFilter,'
                    'VDiskLocalityFilter'
                ],
                ('cinder.conf', 'placement', 'auth_type'): ['password'],
                ('nova-diskplacer.conf', 'DEFAULT', 'debug'): ['True'],
                ('nova-diskplacer.conf', 'diskplacer', 'disk_root'): [
                    f'{self.state}/disks'
                ],
                (
                    'nova-diskplacer.conf',
                    'diskplacer_agent',
                    'report_interval',
                ): ['10'],
                (
                    'nova-diskplacer.conf',
                    'diskplacer_agent',
                    'nova_conf',
                ): ['nova-cpu.conf'],
                ('nova-diskplacer.conf', 'diskplacer_weights', 'mode'): [
                    'off'
                ],
                ('nova-diskplacer.conf', 'placement', 'auth_type'): [
                    'password'
                ],
                ('nova-diskplacer.conf', 'DEFAULT', 'transport_url'): [
                    'rabbit://top'
                ],
            },
            self.options(),
        )

    def test_stack_keeps_what_other_plugins_have_set(self):
        self.run_script(
            """
iniset_multiline nova.conf filter_scheduler available_filters all other.Filter
iniset nova.conf filter_scheduler enabled_filters "ComputeFilter, OtherFilter"
iniset nova.conf filter_scheduler weight_classes other.Weigher
iniset nova.conf api vendordata_dynamic_targets other@http://127.0.0.1/
iniset cinder.conf DEFAULT scheduler_default_filters OtherFilter
"""
            + STACK
        )
        ours = 'nova_diskplacer.scheduler'
        expected = {
            ('nova.conf', 'filter_scheduler', 'available_filters'): [
                'all',
                'other.Filter',
                f'{ours}.filter.DiskPlacementFilter',
            ],
            ('nova.conf', 'filter_scheduler', 'enabled_filters'): [
                'ComputeFilter,OtherFilter,NUMATopologyFilter,'
                'DiskPlacementFilter'
            ],
            ('nova.conf', 'filter_scheduler', 'weight_classes'): [
                f'other.Weigher,{ours}.weigher.DiskPlacementWeigher,'
                f'{ours}.pressure_weigher.DiskPressureWeigher'
            ],
            ('nova.conf', 'api', 'vendordata_dynamic_targets'): [
                'other@http://127.0.0.1/,cloud-init@http://127.0.0.1:9749/'
            ],
            ('cinder.conf', 'DEFAULT', 'scheduler_default_filters'): [
                'OtherFilter,VDiskLocalityFilter'
            ],
        }
        options = self.options()
        self.assertEqual(expected, {key: options[key] for key in expected})

    def test_spaces_after_commas(self):
        self.run_script(
            'NOVA_FILTERS="ComputeFilter, OtherFilter"\n' + STACK,
            DISKPLACER_CINDER_FILTERS='CapabilitiesFilter, OtherFilter',
            CINDER_ENABLED_BACKENDS='lvm:one, vdisk:fast',
        )
        options = self.options()
        for key, expected in (
            (
                ('nova.conf', 'filter_scheduler', 'enabled_filters'),
                'ComputeFilter,OtherFilter,NUMATopologyFilter,'
                'DiskPlacementFilter',
            ),
            (
                ('cinder.conf', 'DEFAULT', 'scheduler_default_filters'),
                'CapabilitiesFilter,OtherFilter,VDiskLocalityFilter',
            ),
            (('nova.conf', 'diskplacer_api', 'volume_type'), 'fast'),
        ):
            self.assertEqual([expected], options[key])

    def test_stack_installs_and_starts_the_services(self):
        self.run_script(STACK)
        self.assertEqual(
            [
                f'setup_develop {PLUGIN.parent} '
                'agent,api,client,driver,scheduler,vendordata'
            ],
            self.calls('setup_develop'),
        )
        command = f'{self.state}/bin/diskplacer-'
        conf = f'--config-file {self.state}/etc'
        self.assertEqual(
            [
                f'run_process diskplacer-agent {command}agent '
                f'{conf}/nova-diskplacer.conf  root',
                f'run_process diskplacer-vendordata {command}vendordata '
                f'{conf}/vendordata.conf',
            ],
            self.calls('run_process'),
        )
        self.assertEqual(
            ['wait_for_service 1 http://127.0.0.1:9749/'],
            self.calls('wait_for_service'),
        )

    def test_packages_of_the_agent_are_installed(self):
        lines = (PLUGIN / 'files' / 'bindep.txt').read_text().splitlines()
        self.assertEqual(
            {'fio', 'hdparm', 'lvm2', 'smartmontools', 'xfsprogs'},
            {line for line in lines if line and not line.startswith('#')},
        )

    def test_only_the_owner_reads_passwords(self):
        self.run_script(STACK)
        for name in ('nova-diskplacer.conf', 'vendordata.conf'):
            mode = (self.state / 'etc' / name).stat().st_mode
            self.assertEqual(0o600, stat.S_IMODE(mode))

    def test_unit_of_the_agent_is_the_shipped_one(self):
        self.run_script(STACK)
        path = 'systemd/devstack@diskplacer-agent.service.d/shipped.conf'
        shipped = PLUGIN.parent / 'etc/systemd/diskplacer-agent.service'
        start = (
            f'{self.state}/bin/diskplacer-agent --config-file '
            f'{self.state}/etc/nova-diskplacer.conf'
        )
        expected = []
        for line in shipped.read_text().split('[Install]')[0].splitlines():
            name, _, value = line.partition('=')
            if name == 'ExecStart':
                expected += ['ExecStart=', f'ExecStart={start}']
            elif name == 'ExecStopPost':
                expected.append(f'ExecStopPost={start} --restore')
            elif name == 'ConditionPathExists':
                expected.append(
                    f'{name}={self.state}/etc/nova-diskplacer.conf'
                )
            else:
                expected.append(line)
        expected.insert(
            expected.index('[Service]') + 1, 'KillMode=control-group'
        )
        self.assertEqual(expected, self.lines(path))

    def test_stack_waits_until_placement_has_every_disk(self):
        self.run_script(STACK, DISKPLACER_DISKS='2')
        error = self.fail_script(
            STACK, DISKPLACER_DISKS='2', UNHEALTHY='id-loop1'
        )
        self.assertIn('DISKPLACER_READY_TIMEOUT=120', error)
        self.assertIn(f'for: {self.state}/disks/id-loop1.', error)

    def test_new_stack_has_no_vdisks_of_the_last_one(self):
        self.run_script(STACK, DISKPLACER_DISKS='1')
        directory = self.state / 'disks' / 'id-loop0' / 'vdisks'
        for script in (STACK, CLEANUP_CINDER):
            for name in ('volume-1', 'snapshot-2', 'unmanaged-3'):
                (directory / name).touch()
            self.run_script(script, DISKPLACER_DISKS='1')
            self.assertEqual(
                ['unmanaged-3'], [path.name for path in directory.iterdir()]
            )

    def test_stack_prepares_loop_devices(self):
        self.run_script(STACK, DISKPLACER_DISKS='2', DISKPLACER_DISK_GB='3')
        images = [self.data / f'disk-{number}.img' for number in (1, 2)]
        self.assertEqual(
            [f'/dev/loop{i} {image}' for i, image in enumerate(images)],
            self.lines('loops'),
        )
        for image in images:
            self.assertEqual(3 << 30, image.stat().st_size)
        self.assertEqual(
            [
                f'diskplacer-manage --config-file {self.state}/etc/'
                'nova-diskplacer.conf disk prepare --medium hdd --mbps 150 '
                f'--fstab {self.data}/fstab /dev/loop{i}'
                for i in range(2)
            ],
            self.calls('diskplacer-manage'),
        )

    def test_stack_prepares_devices_that_are_named(self):
        self.run_script(STACK, DISKPLACER_DEVICES='/dev/sdb /dev/sdc')
        self.assertEqual([], self.lines('loops'))
        self.assertEqual(
            ['/dev/sdb', '/dev/sdc'],
            [call.split()[-1] for call in self.calls('diskplacer-manage')],
        )

    def test_stack_creates_flavors_and_the_volume_type(self):
        self.run_script(STACK, DISKPLACER_VDISKS='2')
        self.assertEqual(['vdisk'], self.lines('types'))
        self.assertEqual(
            ['vdisk.round_robin', 'vdisk.consolidated'], self.lines('flavors')
        )
        self.assertEqual(
            [
                'openstack flavor set vdisk.round_robin '
                '--property diskplacer:vdisks=2 '
                '--property diskplacer:vdisk_gb=1 '
                '--property diskplacer:mapping=round_robin '
                '--property diskplacer:guest=none '
                '--property trait:CUSTOM_DISKPLACER_HOST=required',
                'openstack flavor set vdisk.consolidated '
                '--property diskplacer:vdisks=2 '
                '--property diskplacer:vdisk_gb=1 '
                '--property diskplacer:mapping=consolidated '
                '--property diskplacer:guest=none '
                '--property trait:CUSTOM_DISKPLACER_HOST=required',
            ],
            self.calls('openstack flavor set'),
        )
        self.assertEqual(
            [
                'openstack type set vdisk '
                '--property volume_backend_name=vdisk '
                '--property vdisk:mapping=round_robin'
            ],
            self.calls('openstack type set'),
        )

    def test_stack_is_safe_to_repeat(self):
        self.run_script(STACK)
        before = {
            name: sorted(self.lines(name))
            for name in ('ini', 'loops', 'mounts', 'flavors', 'types')
        }
        image = self.data / 'disk-1.img'
        size = image.stat().st_size
        self.run_script(STACK, DISKPLACER_DISK_GB='1')
        self.assertEqual(
            before, {name: sorted(self.lines(name)) for name in before}
        )
        self.assertEqual(size, image.stat().st_size)
        self.assertEqual(5, len(before['loops']))

    def test_compute_host_gets_its_own_parts_only(self):
        self.run_script(STACK, ENABLED_SERVICES='n-cpu,c-vol')
        self.assertEqual(
            {
                'cinder.conf',
                'nova.conf',
                'nova-diskplacer.conf',
                'vendordata.conf',
            },
            {file for file, _, _ in self.options()},
        )
        self.assertNotIn(
            ('cinder.conf', 'DEFAULT', 'scheduler_default_filters'),
            self.options(),
        )
        self.assertNotIn(
            ('nova.conf', 'filter_scheduler', 'enabled_filters'),
            self.options(),
        )
        self.assertEqual([], self.calls('openstack'))
        self.assertEqual(
            ['diskplacer-agent', 'diskplacer-vendordata'],
            self.lines('processes'),
        )

    def test_controller_gets_no_disks(self):
        self.run_script(
            STACK, ENABLED_SERVICES='n-api,n-api-meta,n-sch,c-api,c-sch'
        )
        self.assertEqual(['diskplacer-vendordata'], self.lines('processes'))
        self.assertEqual([], self.lines('loops'))
        self.assertEqual(['vdisk'], self.lines('types'))
        self.assertIn(
            ('nova.conf', 'filter_scheduler', 'enabled_filters'),
            self.options(),
        )

    def test_volume_type_is_made_where_cinder_is(self):
        self.run_script(STACK, ENABLED_SERVICES='c-api,c-sch')
        self.assertEqual(['vdisk'], self.lines('types'))
        self.assertEqual([], self.lines('flavors'))

    def test_backend_gives_the_volume_type_its_name(self):
        self.run_script(STACK, CINDER_ENABLED_BACKENDS='lvm:one,vdisk:fast')
        self.assertEqual(['fast'], self.lines('types'))
        self.assertEqual(
            [
                'openstack type set fast '
                '--property volume_backend_name=fast '
                '--property vdisk:mapping=round_robin'
            ],
            self.calls('openstack type set'),
        )
        options = self.options()
        self.assertIn(('cinder.conf', 'fast', 'volume_driver'), options)
        self.assertEqual(
            ['fast'], options[('nova.conf', 'diskplacer_api', 'volume_type')]
        )

    def test_tempest_is_told_of_the_default_volume_type(self):
        services = 'tempest,c-api'
        self.run_script(
            STACK, ENABLED_SERVICES=services, CINDER_ENABLED_BACKENDS='lvm:one'
        )
        vendor = ('tempest.conf', 'volume', 'vendor_name')
        self.assertNotIn(vendor, self.options())
        self.run_script(
            STACK, ENABLED_SERVICES=services, CINDER_ENABLED_BACKENDS='vdisk:a'
        )
        self.assertEqual(['nova-diskplacer'], self.options()[vendor])

    def test_quota_of_volumes_holds_several_servers(self):
        script = '. {plugin}/settings\necho $CINDER_QUOTA_VOLUMES'
        self.assertEqual('50', self.run_script(script).strip())
        self.assertEqual(
            '7', self.run_script(script, CINDER_QUOTA_VOLUMES='7').strip()
        )

    def test_compute_node_is_set_when_named(self):
        self.run_script(STACK, DISKPLACER_COMPUTE_NODE='node-1.example.org')
        for name in ('nova-diskplacer.conf', 'cinder.conf'):
            self.assertEqual(
                ['node-1.example.org'],
                self.options()[(name, 'diskplacer', 'compute_node')],
            )

    def test_settings_add_the_backend_once(self):
        script = '. {plugin}/settings\n' * 2 + 'echo $CINDER_ENABLED_BACKENDS'
        for given, wanted in (
            ('lvm:lvmdriver-1', 'lvm:lvmdriver-1,vdisk:vdisk'),
            ('', 'vdisk:vdisk'),
            ('vdisk:local', 'vdisk:local'),
            ('lvm:one, vdisk:fast', 'lvm:one, vdisk:fast'),
        ):
            output = self.run_script(script, CINDER_ENABLED_BACKENDS=given)
            self.assertEqual(wanted, output.strip())

    def test_unstack_stops_the_agent_and_keeps_disks(self):
        self.run_script(STACK)
        self.run_script(UNSTACK)
        self.assertEqual([], self.lines('processes'))
        self.assertEqual(5, len(self.lines('mounts')))

    def test_clean_leaves_nothing(self):
        self.run_script(STACK)
        self.run_script(UNSTACK)
        # the second finds nothing left to do
        for _ in range(2):
            self.run_script(CLEAN)
            self.assertEqual([], self.lines('mounts'))
            self.assertEqual([], self.lines('loops'))
            self.assertFalse(self.data.exists())
            self.assertFalse((self.state / 'disks').exists())
            self.assertFalse((self.state / 'etc').exists())
            self.assertEqual([], list(self.state.glob('systemd/*.d')))
        self.assertIn(
            'systemctl clean --what=runtime devstack@diskplacer-agent.service',
            self.lines('calls'),
        )

    def test_every_knob_is_in_settings(self):
        knob = re.compile(r'\b(DISKPLACER_\w+)')
        library = '\n'.join(
            path.read_text() for path in (PLUGIN / 'lib').iterdir()
        )
        used = set(knob.findall(library))
        own = set(re.findall(r'^(DISKPLACER_\w+)=', library, re.M))
        settings = (PLUGIN / 'settings').read_text()
        knobs = set(re.findall(r'^(DISKPLACER_\w+)=\$\{\1:-', settings, re.M))
        self.assertEqual(set(), used - own - knobs)
        self.assertEqual(set(), knobs - used)
