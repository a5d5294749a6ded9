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


"""kolla-build understands the example files for its images.

It makes Dockerfiles; a build of the images would need a registry.
"""

import re
import shutil

from tests.packaging import base

EXAMPLES = base.TOP / 'doc/examples/kolla'
IMAGES = ('nova-scheduler', 'nova-api', 'cinder-scheduler', 'cinder-volume')


class KollaTest(base.BuildTestCase):
    def test_dockerfiles_install_the_wheel(self):
        programs = self.make_venv('venv')
        self.install('venv', 'kolla', 'docker')
        wheels = self.dir / 'wheels'
        wheels.mkdir()
        shutil.copy(self.wheel, wheels)
        config = self.dir / 'kolla-build.conf'
        config.write_text(
            '[DEFAULT]\nbase = debian\n'
            + (EXAMPLES / config.name)
            .read_text()
            .replace('/etc/kolla/diskplacer', str(wheels))
        )
        base.run(
            programs / 'kolla-build',
            '--config-file',
            config,
            '--template-override',
            EXAMPLES / 'template-overrides.j2',
            '--template-only',
            '--work-dir',
            self.dir / 'work',
            *(f'^{name}$' for name in IMAGES),
            cwd=self.dir,
        )
        for image, extras in (
            ('nova/nova-base', 'scheduler,api'),
            ('cinder/cinder-base', 'driver'),
        ):
            path = self.dir / 'work/docker' / image / 'Dockerfile'
            text = path.read_text()
            # pip takes the wheel from there, and kolla's constraints
            self.assertRegex(
                ' '.join(text.split()),
                'ADD additions-archive / RUN python3 -m pip .* '
                '-c /requirements/upper-constraints.txt '
                '--find-links /additions/diskplacer '
                + re.escape(f"'nova-diskplacer[{extras}]'"),
            )
            for extra in extras.split(','):
                self.assertIn(
                    extra, base.read_project()['optional-dependencies']
                )
            for name in IMAGES:
                if name.split('-')[0] in image:
                    path = self.dir / 'work/docker' / image / '..' / name
                    text = (path / 'Dockerfile').read_text()
                    self.assertIn(f'FROM kolla/{image.split("/")[1]}:', text)
        # of cinder-volume: diskplacer-manage moves the vdisks of servers
        self.assertRegex(text, r'apt-get .* install .*\bpython3-libvirt\b')
