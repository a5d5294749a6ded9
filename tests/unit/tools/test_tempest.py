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


"""What tools/tempest.sh makes of the results of tests."""

import io
import re

import subunit
import testtools
from testtools import content

from tools.tempest import __main__ as runner
from tools.tempest import results
from tools.tempest.results import Known
from tools.tempest.results import Result


class ReadTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.stream = io.BytesIO()
        self.result = testtools.ExtendedToStreamDecorator(
            subunit.StreamResultToBytes(self.stream)
        )
        self.result.startTestRun()

    def add(self, name, outcome, **details):
        test = testtools.PlaceHolder(name)
        texts = {
            key: content.text_content(text) for key, text in details.items()
        }
        self.result.startTest(test)
        getattr(self.result, f'add{outcome}')(test, details=texts)
        self.result.stopTest(test)

    def read(self):
        self.result.stopTestRun()
        self.stream.seek(0)
        return results.read(self.stream)

    def test_statuses(self):
        self.add('m.C.good[id-1,smoke]', 'Success')
        self.add('m.C.bad', 'Failure', traceback='Traceback\nwhy\n')
        self.add('m.C.broken', 'Error', traceback='how')
        self.add('m.C.left', 'Skip', reason='no disk')
        self.assertEqual(
            [
                Result('m.C.good', 'passed'),
                Result('m.C.bad', 'failed', 'Traceback\nwhy'),
                Result('m.C.broken', 'failed', 'how'),
                Result('m.C.left', 'skipped', 'no disk'),
            ],
            self.read(),
        )

    def test_killed(self):
        self.result.startTest(testtools.PlaceHolder('m.C.endless'))
        self.assertEqual([Result('m.C.endless', 'failed')], self.read())


class OfEachTest(testtools.TestCase):
    def test_classes(self):
        found = results.of_each(
            ['m.A.one', 'm.A.two', 'm.B.one', 'm.C.one'],
            [
                Result('m.C.one', 'passed'),
                Result('setUpClass (m.A)', 'skipped', 'no such thing'),
            ],
        )
        self.assertEqual(
            [
                Result('m.A.one', 'skipped', 'no such thing'),
                Result('m.A.two', 'skipped', 'no such thing'),
                Result('m.B.one', 'failed', 'it was not run'),
                Result('m.C.one', 'passed'),
            ],
            found,
        )
        self.assertEqual(
            {'passed': 1, 'failed': 1, 'skipped': 2}, results.counts(found)
        )

    def test_what_fails_besides(self):
        clean_up = Result('tearDownClass (m.A)', 'failed', 'left over')
        self.assertEqual(
            [Result('m.A.one', 'passed'), clean_up],
            results.of_each(
                ['m.A.one'], [Result('m.A.one', 'passed'), clean_up]
            ),
        )


class KnownTest(testtools.TestCase):
    def test_explanation(self):
        entries = [
            Known('skipped', r'\.extend', 'limit'),
            Known('failed', 'revert', 'bug'),
            Known('failed', 'delete', 'race', '404.*gone'),
        ]
        for test, status, reason in (
            ('m.C.extend', 'skipped', 'limit'),
            ('m.C.extend', 'failed', None),
            ('m.C.revert', 'failed', 'bug'),
            ('m.C.other', 'skipped', None),
        ):
            self.assertEqual(
                reason, results.explanation(test, status, entries)
            )
        for said, reason in (('a 404: gone', 'race'), ('a 500: gone', None)):
            self.assertEqual(
                reason,
                results.explanation('m.C.delete', 'failed', entries, said),
            )

    def test_list(self):
        entries = results.known(runner.KNOWN)
        self.assertTrue(entries)
        for entry in entries:
            self.assertIn(entry.status, ('left_out', 'skipped', 'failed'))
            self.assertTrue(entry.reason)
            re.compile(entry.tests)

    def test_unexplained(self):
        summary = runner._summary(
            [
                Result('m.C.one', 'passed'),
                Result('m.C.two', 'skipped', 'why'),
                Result('m.C.three', 'failed', 'how'),
            ],
            {},
            5,
            [Known('skipped', 'two', 'limit')],
        )
        self.assertEqual(['m.C.three'], summary['unexplained'])
        self.assertEqual(1, summary['passed'])
        self.assertIn('tempest', summary['versions'])

    def test_selection(self):
        self.assertEqual(
            (['m.C.one'], {'m.C.two': 'no SSH'}),
            runner._select(
                ['m.C.one', 'm.C.two', 'm.D.one'],
                [r'm\.C', 'nothing'],
                [Known('left_out', 'two', 'no SSH')],
            ),
        )
