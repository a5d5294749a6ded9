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

import math
import random

import testtools

from diskplacer_measure.sweep import choose
from diskplacer_measure.sweep import model
from tests.unit.diskplacer_measure.sweep import example

DATA = 4096
SHAPES = ((1, 1024), (2, 1024), (2, 4096), (4, 4096), (8, 2048), (16, 16384))


def fit(log, noise=0.0, shapes=SHAPES, several=(), seed=1):
    """Return the model of servers with this logarithm of throughput.

    :param log: a function of vCPUs, MiB and whether there are four servers.
    :param several: shapes of which four servers were measured, too.
    """
    draw = random.Random(seed)
    cells = [
        example.cell(vcpus=vcpus, ram_mib=ram, jobs=4) for vcpus, ram in shapes
    ] + [
        example.cell(scenario='servers', servers=4, vcpus=vcpus, ram_mib=ram)
        for vcpus, ram in several
    ]
    of_cells = {cell: draw.gauss(0, noise) for cell in cells}
    results = [
        example.result(
            cell,
            repetition,
            math.exp(
                log(cell.vcpus, cell.ram_mib, cell.scenario == 'servers')
                + of_cells[cell]
                + draw.gauss(0, 0.001)
            ),
        )
        for repetition in range(3)
        for cell in cells
    ]
    choice = choose.choose(
        results, 'sequential_async', 'host' if several else 'server'
    )
    return model.fit(choice, DATA)


def planted(vcpus, ram, several):
    x = math.log2(vcpus)
    servers = 2 if several else 0
    memory = math.log2(ram / DATA) + servers
    return 4 + 0.5 * x - 0.1 * x**2 + 0.05 * memory + 0.3 * several


class FitTest(testtools.TestCase):
    def test_terms(self):
        found = fit(planted, several=SHAPES)
        self.assertEqual(
            [
                ('constant', 4),
                ('log2 vCPUs', 0.5),
                ('several servers', 0.3),
                ('log2 memory by data', 0.05),
                ('square of log2 vCPUs', -0.1),
            ],
            [(one.name, round(one.value, 2)) for one in found.terms],
        )
        self.assertAlmostEqual(1, found.r_squared, 3)
        self.assertLess(found.error, 1)
        self.assertGreater(found.mean_error, 10)
        self.assertFalse(found.is_worse_than_mean)
        self.assertEqual((), found.without)
        self.assertEqual(6, found.shapes)

    def test_intervals_hold_what_was_planted(self):
        truth = {
            'constant': 4,
            'log2 vCPUs': 0.5,
            'several servers': 0.3,
            'log2 memory by data': 0.05,
            'square of log2 vCPUs': -0.1,
        }
        held = dict.fromkeys(truth, 0)
        seeds = 200
        for seed in range(seeds):
            found = fit(planted, noise=0.05, several=SHAPES, seed=seed)
            for one in found.terms:
                held[one.name] += one.low <= truth[one.name] <= one.high
        for name, number in held.items():
            self.assertLessEqual(0.90, number / seeds, name)
            self.assertGreaterEqual(0.99, number / seeds, name)

    def test_noise_alone_is_no_better_than_the_mean(self):
        worse = sum(
            fit(lambda *_: 4, noise=0.2, seed=seed).is_worse_than_mean
            for seed in range(40)
        )
        self.assertGreater(worse, 20)

    def test_terms_that_do_not_vary(self):
        shapes = [(vcpus, 2048) for vcpus in (1, 2, 4)]
        found = fit(lambda vcpus, *_: math.log(vcpus), shapes=shapes)
        self.assertEqual(
            ['constant', 'log2 vCPUs'], [one.name for one in found.terms]
        )
        self.assertAlmostEqual(math.log(2), found.terms[1].value, 2)
        self.assertEqual(
            ('several servers', 'log2 memory by data', 'square of log2 vCPUs'),
            found.without,
        )

    def test_a_shape_more_than_terms(self):
        """Terms that would describe any three shapes are left out."""
        found = fit(planted, shapes=SHAPES[1:4])
        self.assertEqual(
            ['constant', 'log2 vCPUs'], [one.name for one in found.terms]
        )
        self.assertLess(found.r_squared, 1)
        self.assertIn('log2 memory by data', found.without)

    def test_a_shape_that_is_left_out(self):
        """The line through two shapes, against what the third has."""
        shapes = [(1, 1024), (2, 1024), (4, 1024)]
        rates = dict(zip(shapes, (10, 20, 80), strict=True))
        found = fit(
            lambda vcpus, ram, _: math.log(rates[vcpus, ram]), shapes=shapes
        )
        # 5, 28.3 and 40 are expected
        self.assertAlmostEqual(
            100 * (0.5 + 0.414 + 0.5) / 3, found.error, delta=1
        )
        # the means of the others: 40, 28.3 and 14.1
        self.assertAlmostEqual(
            100 * (3 + 0.414 + 0.823) / 3, found.mean_error, delta=2
        )

    def test_too_few_shapes(self):
        self.assertIsNone(fit(planted, shapes=SHAPES[:2]))
        self.assertIsNone(
            model.fit(choose.choose([], 'sequential_async', 'server'), DATA)
        )

    def test_only_the_settings_of_the_highest(self):
        results = [
            example.result(
                example.cell(
                    vcpus=vcpus, ram_mib=ram, host_scheduler=scheduler
                ),
                repetition,
                rate * (1 + 0.001 * (repetition + vcpus)),
            )
            for vcpus, ram in SHAPES
            for scheduler, rate in (('bfq', 10 / vcpus), ('none', 20 * vcpus))
            for repetition in range(2)
        ]
        choice = choose.choose(results, 'sequential_async', 'server')
        found = model.fit(choice, DATA)
        self.assertAlmostEqual(math.log(2), found.terms[1].value, 1)
