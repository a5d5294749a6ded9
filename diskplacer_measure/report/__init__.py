"""The report of a sweep.

``contents`` collects what it shows, and ``page`` draws ``figures`` with
``svg``.
"""
