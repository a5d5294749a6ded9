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


"""The scripts that make environments and run tests."""

import os
import pathlib
import re
import subprocess

import fixtures
import testscenarios
import testtools

TOOLS = pathlib.Path(__file__).parents[3] / 'tools'

# Packages are what $INSTALLED lists; installing them is written down.
STANDINS = """
. {tools}/lib/env.sh
dpkg-query() {{
    case " $INSTALLED " in *" ${{!#}} "*) echo installed ;; esac
}}
_env_install_packages() {{ echo "install $*"; }}
_env_install_base() {{ echo base; mkdir -p "$VENV"; }}
_env_install_project() {{ echo project; }}
_env_install_cloud() {{ echo cloud; }}
id() {{ echo "${{USER_ID:-0}}"; }}
ENV_TOP=$STATE
ENV_LIB=$STATE
"""

TOTALS = """
 - Passed: {passed}
 - Skipped: 1
 - Expected Fail: 0
 - Unexpected Success: 0
 - Failed: {failed}
"""


class EnvTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.state = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        for name in (
            'openstack.txt',
            'requirements.txt',
            'test-requirements.txt',
            'doc/requirements.txt',
            'setup.cfg',
            'pyproject.toml',
        ):
            path = self.state / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(name)
        (self.state / 'bindep.txt').write_text(
            '# words [platform:dpkg]\n'
            'git [platform:dpkg]\n'
            'fio [platform:dpkg cloud]\n'
            'gcc [platform:dpkg cloud compile]\n'
        )

    def run_script(self, script, **env):
        done = subprocess.run(
            ['bash', '-c', STANDINS.format(tools=TOOLS) + script],
            env={'PATH': os.environ['PATH'], 'STATE': self.state, **env},
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout.splitlines(), done.stderr

    def test_missing_packages_of_the_profile_are_installed(self):
        for profiles, installed, wanted in (
            ('', '', ['install git']),
            ('', 'git', []),
            ('cloud', '', ['install git fio gcc']),
            ('compile', 'git', ['install gcc']),
            ('cloud', 'git fio gcc', []),
        ):
            status, output, _ = self.run_script(
                f'env_packages {profiles}', INSTALLED=installed
            )
            self.assertEqual((0, wanted), (status, output))

    def test_missing_packages_are_named_to_who_cannot_install(self):
        status, output, error = self.run_script(
            'env_packages cloud', INSTALLED='git', USER_ID='1000'
        )
        self.assertEqual((1, []), (status, output))
        self.assertIn('apt-get install fio gcc', error)

    def test_environment_is_made_once_for_each_set_of_requirements(self):
        _, output, _ = self.run_script('env_make && env_make')
        self.assertEqual(['base', 'project'], output)
        _, output, _ = self.run_script('env_make cloud')
        self.assertEqual(['cloud'], output)
        (self.state / 'setup.cfg').write_text('entry points')
        _, output, _ = self.run_script('env_make cloud')
        self.assertEqual(['project'], output)
        (self.state / 'requirements.txt').write_text('more')
        _, output, _ = self.run_script('env_make')
        self.assertEqual(['base', 'project'], output)

    def test_cloud(self):
        status, output, _ = self.run_script(
            'env_cloud compile; echo "$PYTHONPATH"'
        )
        self.assertEqual(0, status)
        self.assertEqual(
            [
                'install git fio gcc',
                'base',
                'project',
                'cloud',
                str(self.state),
            ],
            output,
        )

    def test_cloud_needs_root(self):
        status, output, error = self.run_script('env_cloud', USER_ID='1000')
        self.assertEqual((2, []), (status, output))
        self.assertIn('needs root', error)

    def test_cloud_without_its_environment(self):
        status, output, _ = self.run_script('env_make() { false; }; env_cloud')
        self.assertEqual((1, ['install git fio gcc']), (status, output))

    def test_a_release_has_an_environment_of_its_own(self):
        pins = self.state / 'releases' / '2025.1'
        pins.mkdir(parents=True)
        (pins / 'openstack.txt').write_text('nova')
        self.run_script('env_make')
        _, output, _ = self.run_script('env_make', ENV_RELEASE='2025.1')
        self.assertEqual(['base', 'project'], output)
        for release in ('', '2025.1', '2026.2'):
            _, output, _ = self.run_script('env_make', ENV_RELEASE=release)
            self.assertEqual([], output)
        status, _, error = self.run_script('env_make', ENV_RELEASE='2024.2')
        self.assertEqual(1, status)
        self.assertIn('2024.2 is not one of: 2025.1 2026.2', error)

    def test_what_failed_is_tried_again(self):
        fail = '_env_install_project() { echo failed; return 1; }\n'
        status, output, _ = self.run_script(fail + 'env_make')
        self.assertEqual((1, ['base', 'failed']), (status, output))
        status, output, _ = self.run_script('env_make')
        self.assertEqual((0, ['project']), (status, output))

    def test_python_must_be_one_that_is_supported(self):
        for version in ('3.10', '3.11', '3.14'):
            major, minor = version.split('.')
            python = self.state / f'python{version}'
            # stands in for an interpreter that is asked for its version
            python.write_text(
                '#!/bin/bash\n'
                f'version="({major}, {minor})"\n'
                'exec python3 -c "import collections, sys\n'
                f'sys.version_info = ({major}, {minor}, 0)\n$2"\n'
            )
            python.chmod(0o755)
        path = f'{self.state}:{os.environ["PATH"]}'
        status, output, _ = self.run_script(
            'ENV_PYTHONS="python3.10 python3.14 python3.11"; _env_python',
            PATH=path,
        )
        self.assertEqual((0, [f'{self.state}/python3.11']), (status, output))
        status, output, error = self.run_script(
            'ENV_PYTHONS="python3.10 python3.14"; _env_python', PATH=path
        )
        self.assertEqual((1, []), (status, output))
        self.assertIn('no Python 3.11, 3.12 or 3.13', error)

    def test_an_environment_of_ones_own_is_used_as_it_is(self):
        status, output, _ = self.run_script(
            'env_make cloud && echo $VENV ${PATH%%:*}',
            DISKPLACER_VENV='/opt/mine',
        )
        self.assertEqual((0, ['/opt/mine /opt/mine/bin']), (status, output))


class TestScriptTest(testscenarios.WithScenarios, testtools.TestCase):
    """What tools/test.sh makes of what the test runner says."""

    scenarios = [
        (
            'all pass',
            {'says': {'passed': 3, 'failed': 0}, 'ends': 0, 'line': '3, 0'},
        ),
        (
            'one fails',
            {'says': {'passed': 2, 'failed': 1}, 'ends': 1, 'line': '2, 1'},
        ),
        (
            'failures are not believed to be none',
            {'says': {'passed': 2, 'failed': 0}, 'ends': 1, 'line': '2, 1'},
        ),
        (
            'none ran',
            {'says': {'passed': 0, 'failed': 0}, 'ends': 0, 'line': '0, 1'},
        ),
    ]

    def setUp(self):
        super().setUp()
        self.venv = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (self.venv / 'bin').mkdir()
        totals = TOTALS.format(**self.says)
        failed = '{0} tests.one [0.1s] ... FAILED\n' * self.says['failed']
        self.add(
            'stestr',
            f"echo logged >&2\ncat << 'END'\n{failed}{totals}END\n"
            f'exit {self.ends}',
        )
        self.add('dpkg-query', 'echo installed')

    def add(self, command, script):
        path = self.venv / 'bin' / command
        path.write_text(f'#!/bin/bash\n{script}\n')
        path.chmod(0o755)

    def assertLast(self, passed, failed, *stages):
        path = f'{self.venv}/bin:{os.environ["PATH"]}'
        done = subprocess.run(
            [TOOLS / 'test.sh', *stages],
            env={**os.environ, 'DISKPLACER_VENV': self.venv, 'PATH': path},
            capture_output=True,
            text=True,
        )
        self.assertEqual(
            f'{passed} passed, {failed} failed', done.stdout.splitlines()[-1]
        )
        self.assertEqual(int(failed > 0), done.returncode)
        return done.stdout.splitlines(), done.stderr

    def test_last_line_and_status(self):
        passed, failed = map(int, self.line.split(', '))
        output, error = self.assertLast(passed, failed, 'packaging')
        self.assertEqual(int(failed > 0), output.count('logged'))
        self.assertEqual('', error)

    def test_beside_others(self):
        passed, failed = map(int, self.line.split(', '))
        output, _ = self.assertLast(
            3 * passed, 3 * failed, 'packaging', 'e2e', 'testbed'
        )
        named = [line for line in output[-4:] if line.startswith('FAILED: ')]
        self.assertEqual(3 * failed, len(named))


class StestrTestCase(testtools.TestCase):
    """Runs tools/test.sh with a stand-in for stestr."""

    stestr = 'echo "stestr $*"; echo " - Passed: 1"'

    def setUp(self):
        super().setUp()
        self.venv = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        bin_ = self.venv / 'bin'
        bin_.mkdir()
        for command, script in (
            ('stestr', self.stestr),
            ('dpkg-query', 'echo installed'),
        ):
            (bin_ / command).write_text(f'#!/bin/bash\n{script}\n')
            (bin_ / command).chmod(0o755)

    def run_script(self, *arguments):
        path = f'{self.venv}/bin:{os.environ["PATH"]}'
        return subprocess.run(
            [TOOLS / 'test.sh', *arguments],
            env={**os.environ, 'DISKPLACER_VENV': self.venv, 'PATH': path},
            capture_output=True,
            text=True,
        )


class StagesTest(StestrTestCase):
    """What the arguments of tools/test.sh run."""

    def test_parts(self):
        for stage, test_path, tests in (
            ('unit/tools', 'tests/unit/tools', ''),
            (
                'unit/nova_diskplacer/test_flavor',
                'tests/unit/nova_diskplacer',
                r' tests\.unit\.nova_diskplacer\.test_flavor\.',
            ),
            ('functional/nova', 'tests/functional/nova', ''),
            ('e2e/test_path', 'tests/e2e', r' tests\.e2e\.test_path\.'),
        ):
            done = self.run_script(stage)
            (line,) = re.findall('^stestr .*', done.stdout, re.M)
            self.assertIn(f'--test-path {test_path} ', line)
            self.assertTrue(line.endswith(tests), line)

    def test_parts_of_one_stage_beside_others(self):
        done = self.run_script('e2e/test_path', 'unit/tools', 'e2e/test_users')
        self.assertEqual('3 passed, 0 failed', done.stdout.splitlines()[-1])
        for test in ('path', 'users'):
            self.assertIn(rf'tests\.e2e\.test_{test}\.', done.stdout)

    def test_no_such_stage(self):
        done = self.run_script('unit', 'units')
        self.assertEqual(2, done.returncode)
        self.assertIn('units is not one of: all pep8', done.stderr)


class AtOnceTest(StestrTestCase):
    """Packages of functional tests run two at once."""

    # most of them end while another one prints
    stestr = """
package=$2
for test in 1 2 3; do
    echo "{0} $package.$test [0.1s] ... ok"
    echo "$package $test"
    sleep 0.02
done
echo ' - Passed: 1'
[[ $package != */nova ]]
"""

    def test_each_prints_all_at_its_end(self):
        done = self.run_script('functional')
        lines = done.stdout.splitlines()
        packages = {
            f'tests/functional/{path.parent.name}'
            for path in TOOLS.parent.glob('tests/functional/*/__init__.py')
        }
        heads = [line for line in lines if line.startswith('== tests/')]
        self.assertEqual({f'== {name}' for name in packages}, {*heads})
        for name in packages:
            first = lines.index(f'== {name}') + 1
            self.assertEqual(
                [f'{name} {test}' for test in (1, 2, 3)] + [' - Passed: 1'],
                lines[first : first + 4],
            )
            for test in (1, 2, 3):
                passed = f'{{0}} {name}.{test} [0.1s] ... ok'
                self.assertLess(lines.index(passed), first)
        # one status that is not 0 is enough
        self.assertEqual(
            f'{len(packages)} passed, 1 failed',
            lines[-1],
        )
        self.assertEqual(1, done.returncode)


class FailedTextTest(StestrTestCase):
    """The last lines that failed tests say, after the times of the stages."""

    # five tests fail in each run of stestr
    stestr = """
for test in 1 2 3 4 5; do
    echo "{0} tests.$PPID.test_$test [0.1s] ... FAILED"
    printf '%s\\n' '' 'Captured traceback:' '~~~~~~~~~~~~~~~~~~~'
    printf '    %s\\n\\n' "$test says "{01..30}
    printf '%s\\n' '' 'Captured pythonlogging:' '~~~~~~~~~~~~~~~' logged
    printf '%70s\\n' '' | tr ' ' =
    echo '{0} tests.other [0.1s] ... ok'
done
printf '%s\\n' '======' Totals '======' ' - Failed: 5'
"""

    def test_of_stages_and_of_those_beside(self):
        done = self.run_script('packaging', 'e2e')
        end = done.stdout[done.stdout.index('\nenvironment ') :]
        texts = end[end.rindex(' s  ') :].split('\n\n')
        self.assertIn('0 passed, 10 failed', texts[-1])
        names = [
            re.findall(r'^tests\.\d+\.(\w+) .* FAILED$', text, re.M)
            for text in texts[1:]
        ]
        first = [f'test_{test}' for test in range(1, 6)]
        self.assertEqual([[name] for name in first + first[:3]], names)
        for text, (name,) in zip(texts[1:], names, strict=True):
            said = [f'    {name[-1]} says {line:02}' for line in range(6, 31)]
            self.assertEqual(said, text.splitlines()[1:26])
            self.assertNotIn('logged', text)


class HelpTest(testtools.TestCase):
    """The help of each script, which installs nothing."""

    def run_script(self, name, *arguments):
        bin_ = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        for command in ('apt-get', 'dpkg-query', 'python3'):
            # whoever gets that far says so
            (bin_ / command).write_text(f'#!/bin/bash\necho {command} >&2\n')
            (bin_ / command).chmod(0o755)
        path = f'{bin_}:{os.environ["PATH"]}'
        return subprocess.run(
            [TOOLS / f'{name}.sh', *arguments],
            env={'PATH': path},
            capture_output=True,
            text=True,
        )

    def test_help(self):
        for name in (
            'bench',
            'debian',
            'demo',
            'stestr',
            'storm',
            'tempest',
            'test',
            'testbed',
        ):
            for option in ('-h', '--help'):
                done = self.run_script(name, option)
                self.assertEqual((0, ''), (done.returncode, done.stderr))
                self.assertIn(f'\n  tools/{name}.sh ', done.stdout)
                self.assertNotIn('License', done.stdout)
                self.assertNotIn('set -', done.stdout)

    def test_help_after_other_arguments(self):
        done = self.run_script('demo', '--keep', '--help')
        self.assertEqual((0, ''), (done.returncode, done.stderr))
        self.assertIn('--state DIR', done.stdout)

    def test_a_benchmark_has_its_own_help(self):
        done = self.run_script('bench', 'absent', '--help')
        self.assertEqual(2, done.returncode)
        self.assertIn('NAME: agent_cost', done.stderr)


class RequirementsTest(testtools.TestCase):
    """The requirement files that the scripts share."""

    def test_constraints_hold_every_requirement(self):
        def names(path):
            found = re.findall(r'^([\w.-]+)', path.read_text(), re.M)
            return {re.sub(r'[-_.]+', '-', name).lower() for name in found}

        lib, top = TOOLS / 'lib', TOOLS.parent
        for pins in (lib, *(lib / 'releases').iterdir()):
            constrained = names(pins / 'constraints.txt')
            pinned = names(pins / 'openstack.txt') | names(lib / 'nodeps.txt')
            self.assertEqual(set(), constrained & pinned)
            paths = [top / 'requirements.txt', top / 'test-requirements.txt']
            if pins == lib:
                paths += [
                    top / 'doc' / 'requirements.txt',
                    lib / 'cloud.txt',
                    lib / 'pep8.txt',
                ]
            for path in paths:
                self.assertEqual(set(), names(path) - constrained, path)
