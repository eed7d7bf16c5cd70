"""Arguments that are plain values, checked: names, numbers, paths, durations, positions and how a rollup folds."""
