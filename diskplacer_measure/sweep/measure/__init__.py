"""Shells that measure the cells of a sweep.

``run`` goes through the cells, ``bare`` and ``server_boots`` have the script
of ``workload`` measure, and ``outcome`` makes results of its figures.
"""
