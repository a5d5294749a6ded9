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


import io
import re
import xml.etree.ElementTree
from unittest import mock
from xml.parsers import expat

import testscenarios
import yaml
from hypothesis import given
from hypothesis import strategies as st
from oslotest import base

from nova_diskplacer.guest import editing

DIRS = ['/data/1/x', '/data/2/x']

TEXT = st.text(
    st.characters(
        codec='utf-8', exclude_categories=('Cc', 'Cs'), exclude_characters='￾￿'
    )
)
NAME = st.text('abcdefgh.-', min_size=1)


def as_bytes(text):
    """Return a text as the editors take it."""
    return text.encode().decode('latin-1')


def back(text):
    return text.encode('latin-1').decode()


def properties(text):
    """Return the properties of a Hadoop file, in order."""
    root = xml.etree.ElementTree.fromstring(back(text).encode())
    return [
        (one.findtext('name'), one.findtext('value') or '')
        for one in root.findall('property')
    ]


class XMLTest(base.BaseTestCase):
    def test_new_file(self):
        text = editing.set_xml('', 'a.b', DIRS)
        self.assertEqual([('a.b', '/data/1/x,/data/2/x')], properties(text))
        self.assertEqual(text, editing.set_xml(text, 'a.b', DIRS))

    def test_keeps_the_rest(self):
        old = (
            '<?xml version="1.0"?>\n'
            '<?xml-stylesheet type="text/xsl" href="configuration.xsl"?>\n'
            '<!-- Site’s -->\n'
            '<configuration xmlns:xi="http://www.w3.org/2001/XInclude">\n'
            '  <property><name>x</name><value>&lt;é&gt;</value></property>\n'
            '  <!-- where -->\n'
            '  <property>\n'
            '    <name> dfs.datanode.data.dir </name>\n'
            '    <value>/old</value>\n'
            '    <final>true</final>\n'
            '  </property>\n'
            '  <xi:include href="more.xml"/>\n'
            '</configuration>\n'
        )
        new = editing.set_xml(as_bytes(old), 'dfs.datanode.data.dir', DIRS)
        self.assertEqual(
            old.replace('/old', ','.join(DIRS)).replace(
                '<?xml version="1.0"?>',
                '<?xml version="1.0" encoding="UTF-8"?>',
            ),
            back(new),
        )

    def test_not_xml(self):
        self.assertRaises(expat.ExpatError, editing.set_xml, '<a>', 'a', DIRS)

    def test_another_file(self):
        for old in ('<beans/>', '<a><configuration/></a>'):
            error = self.assertRaises(
                ValueError, editing.set_xml, old, 'a', DIRS
            )
            self.assertIn('instead of <configuration>', str(error))

    @given(st.dictionaries(NAME, TEXT), NAME, st.lists(NAME, min_size=1))
    def test_any(self, others, name, values):
        root = xml.etree.ElementTree.Element('configuration')
        for key, value in others.items():
            one = xml.etree.ElementTree.SubElement(root, 'property')
            xml.etree.ElementTree.SubElement(one, 'name').text = key
            xml.etree.ElementTree.SubElement(one, 'value').text = value
        stream = io.BytesIO()
        xml.etree.ElementTree.ElementTree(root).write(stream, 'utf-8')
        old = stream.getvalue().decode('latin-1')
        new = editing.set_xml(old, name, values)
        self.assertEqual(
            {**others, name: ','.join(values)}, dict(properties(new))
        )
        self.assertEqual(new, editing.set_xml(new, name, values))


class PropertiesTest(testscenarios.WithScenarios, base.BaseTestCase):
    scenarios = [
        (name, {'old': old, 'new': new})
        for name, old, new in (
            ('new', '', 'log.dirs=/data/1/x,/data/2/x\n'),
            ('unended', 'a=1', 'a=1\nlog.dirs=/data/1/x,/data/2/x\n'),
            (
                'in its place',
                '# log.dirs=/c\na=1\nlog.dirs = /old\nb=2\n',
                '# log.dirs=/c\na=1\nlog.dirs=/data/1/x,/data/2/x\nb=2\n',
            ),
            (
                'separated by a space, and colon',
                'log.dirs\t/old\nlog.dirs:/older\n',
                'log.dirs=/data/1/x,/data/2/x\n',
            ),
            (
                'continued',
                'log.dirs=/old,\\\n  /older\nb=\\\\\nlog.dirs.x=1\n',
                'log.dirs=/data/1/x,/data/2/x\nb=\\\\\nlog.dirs.x=1\n',
            ),
            (
                'continuation that looks like it',
                'a=\\\nlog.dirs=1\n#\\\nlog.dirs=2\n',
                'a=\\\nlog.dirs=1\n#\\\nlog.dirs=/data/1/x,/data/2/x\n',
            ),
            (
                'other ends of lines',
                as_bytes('# Å log.dirs=1\nlog.dirs=/old\r\n'),
                as_bytes('# Å log.dirs=1\nlog.dirs=/data/1/x,/data/2/x\n'),
            ),
        )
    ]

    def test_set(self):
        new = editing.set_properties(self.old, 'log.dirs', DIRS)
        self.assertEqual(self.new, new)
        self.assertEqual(new, editing.set_properties(new, 'log.dirs', DIRS))


class AnyPropertiesTest(base.BaseTestCase):
    def test_the_last_line_goes_on(self):
        for old in ('a=1\\', 'a=1\\\n', '# log.dirs\na=1\\\r\n'):
            error = self.assertRaises(
                ValueError, editing.set_properties, old, 'log.dirs', DIRS
            )
            self.assertIn('backslash', str(error))
        for old in ('a=1\\\\', '# a\\\n'):
            new = editing.set_properties(old, 'log.dirs', DIRS)
            self.assertEndsWith(new, '\nlog.dirs=/data/1/x,/data/2/x\n')

    def assertEndsWith(self, text, end):
        self.assertEqual(end, text[-len(end) :])

    @given(
        st.lists(
            st.tuples(
                st.sampled_from(['# ', '', '  ', '!']),
                st.sampled_from(['log.dirs', 'log.dirs.x', 'logxdirs', 'a']),
                st.sampled_from(['=', ' = ', ':', ' ']),
                TEXT.filter(lambda text: '\\' not in text),
                st.sampled_from(['\n', '\r\n']),
            )
        )
    )
    def test_any(self, entries):
        old = as_bytes(''.join(map(''.join, entries)))
        new = editing.set_properties(old, 'log.dirs', DIRS)
        others = [
            ''.join(entry)
            for entry in entries
            if entry[0].strip() or entry[1] != 'log.dirs'
        ]
        setting = 'log.dirs=/data/1/x,/data/2/x\n'
        parts = back(new).split(setting)
        self.assertEqual(2, len(parts))
        self.assertEqual(''.join(others), ''.join(parts))


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), TEXT),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(TEXT, inner, max_size=3),
    ),
    max_leaves=8,
)


class YAMLTest(base.BaseTestCase):
    name = 'data_file_directories'

    def edit(self, old):
        new = editing.set_yaml(old, self.name, DIRS)
        self.assertEqual(new, editing.set_yaml(new, self.name, DIRS))
        return new

    def test_new_file(self):
        self.assertEqual({self.name: DIRS}, yaml.safe_load(self.edit('')))

    def test_keeps_comments(self):
        old = (
            '# Directories\n'
            '# data_file_directories:\n'
            '#     - /var/lib/cassandra/data\n'
            'data_file_directories:  # where\n'
            '- /old\n'
            '\n'
            '# not this\n'
            '- /older\n'
            '\n'
            '# Commit log\n'
            'commitlog_directory: /var/lib\n'
        )
        new = self.edit(old)
        self.assertEqual(
            {self.name: DIRS, 'commitlog_directory': '/var/lib'},
            yaml.safe_load(new),
        )
        self.assertTrue(
            new.endswith('\n\n# Commit log\ncommitlog_directory: /var/lib\n')
        )
        self.assertEqual(
            re.findall('(?m)^#.*$', old.replace('# not this', '')),
            re.findall('(?m)^#.*$', new),
        )

    def test_flow(self):
        for old in (
            'a: 1\ndata_file_directories: [/x, /y]\nb: 2\n',
            'a: 1\ndata_file_directories: [/x,\n  /y\n]\nb: 2\n',
            'a: 1\n"data_file_directories" :\n  [/x,\n   /y]\nb: 2',
            'a: 1\nb: 2\ndata_file_directories:\n',
        ):
            self.assertEqual(
                {'a': 1, 'b': 2, self.name: DIRS},
                yaml.safe_load(self.edit(old)),
            )

    def test_document_end(self):
        for end in ('...\n', '...', '... \r\n\n# that is all\n...\n'):
            for parser in (yaml, None):
                with mock.patch.object(editing, 'yaml', parser):
                    new = self.edit('---\n# Cassandra\na: 1\n' + end)
                self.assertEqual(
                    {'a': 1, self.name: DIRS}, yaml.safe_load(new)
                )
                self.assertTrue(new.endswith(end))

    def test_another_form(self):
        for old in (
            'a: 1\n---\nb: 2\n',
            'a: 1\n...\n---\n',
            'a: 1\n...\nb: 2\n',
            '{a: 1}\n',
            '--- {a: 1}\n',
            '- a\n- b\n',
            '  a: 1\n  b: 2\n',
            'text\n',
            'a: [1\n',
            'a: 1\n  b: 2\n',
            '? [a, b]\n: 1\n',
            '%YAML 1.2\n',
            'data_file_directories: &dirs [/x]\nothers: *dirs\n',
        ):
            error = self.assertRaises(
                ValueError, editing.set_yaml, old, self.name, DIRS
            )
            self.assertIn('not one YAML document', str(error))

    def test_another_form_without_a_parser(self):
        with mock.patch.object(editing, 'yaml', None):
            for old in (
                'a: 1\n---\nb: 2\n',
                'a: 1\n...\n---\n',
                'a: 1\n...\nb: 2\n',
                '{a: 1}\n',
                '--- {a: 1}\n',
                '  a: 1\n  b: 2\n',
                'text\n',
                '? a\n: 1\n',
                '%YAML 1.2\n---\na: 1\n',
            ):
                self.assertRaises(
                    ValueError, editing.set_yaml, old, self.name, DIRS
                )
            self.assertEqual(
                {'a': 1, 'b': {'c': [1]}, self.name: DIRS},
                yaml.safe_load(
                    self.edit(
                        f'---\na: 1\n# x\n"b":\n  c:\n  - 1\n{self.name}:'
                    )
                ),
            )

    @given(
        st.dictionaries(TEXT, VALUES, max_size=5),
        st.lists(TEXT),
        st.sampled_from([None, False, True]),
        st.integers(1, 6),
    )
    def test_any(self, others, old, flow, indent):
        document = {**others, self.name: old}
        text = yaml.safe_dump(
            document,
            default_flow_style=None if flow is None else False,
            sort_keys=bool(flow),
            indent=indent,
            allow_unicode=True,
        )
        self.assertEqual(
            {**others, self.name: DIRS},
            yaml.safe_load(back(self.edit(as_bytes(text)))),
        )
