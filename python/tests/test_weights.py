"""Weighted draws, and the chances that come with them."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

import drillcore

N = 60_000
WEIGHTS = [0, 1, 2, 3, 10]


@pytest.fixture
def weighted(database: drillcore.Database) -> drillcore.Table:
    """Rows of five weights, in two segments and a buffer."""
    schema = {"id": "int64", "name": "string", "weight": "int64", "share": "float64"}
    table = database.create_table("t", schema, key="id", set="name", weights=["weight", "share"])
    for part in range(3):
        ids = range(part * 5, part * 5 + 5)
        table.append(
            pa.table({"id": ids, "name": ["a" if i % 2 else "b" for i in ids], "weight": WEIGHTS, "share": [0.25] * 5})
        )
        if part < 2:
            database.flush()
    return table


def test_rows_are_drawn_in_proportion_to_their_weight(weighted: drillcore.Table) -> None:
    drawn = weighted.sample(N, weight="weight", replace=True, seed=5).arrow()["id"].to_pylist()
    for i in range(15):
        chance = WEIGHTS[i % 5] / 48
        # Six standard deviations: each of the 15 checks fails by chance once in 5e8 runs.
        assert abs(drawn.count(i) - N * chance) <= 6 * math.sqrt(N * chance * (1 - chance))


def test_a_uniform_draw_is_not_weighted(weighted: drillcore.Table) -> None:
    drawn = weighted.sample(N, replace=True, seed=5).arrow()["id"].to_pylist()
    assert drawn.count(0) > N / 30
    drawn = weighted.sample(N, weight="share", replace=True, seed=5).arrow()["id"].to_pylist()
    assert drawn.count(0) > N / 30, "equal weights are a uniform draw"


def test_weighted_draws_keep_to_the_selection(weighted: drillcore.Table) -> None:
    drawn = weighted.sample(500, weight="weight", replace=True, set="a", between=(3, 9), with_probability=True)
    rows = drawn.arrow().to_pylist()
    # Of 3..9 the set "a" has 3, 5, 7 and 9, with weights 3, 0, 2 and 10.
    assert {row["id"] for row in rows} == {3, 7, 9}
    assert all(row["probability"] == pytest.approx(row["weight"] / 15) for row in rows)


def test_different_rows_are_drawn_until_the_weights_run_out(weighted: drillcore.Table) -> None:
    ids = weighted.sample(12, weight="weight").arrow()["id"].to_pylist()
    assert sorted(ids) == [i for i in range(15) if i % 5]
    assert len(weighted.sample(15, weight="weight", at_most=True)) == 12
    with pytest.raises(drillcore.TooFewRowsError, match=r"draw fewer rows, or allow a smaller sample \(at_most=True\)"):
        weighted.sample(13, weight="weight")


def test_uniform_draws_tell_their_chance(weighted: drillcore.Table) -> None:
    with_replacement = weighted.sample(4, replace=True, with_probability=True).arrow()["probability"].to_pylist()
    assert with_replacement == [pytest.approx(1 / 15)] * 4
    without = weighted.sample(4, with_probability=True).arrow()["probability"].to_pylist()
    assert without == [pytest.approx(4 / 15)] * 4


def test_a_seed_repeats_weighted_draws_on_one_snapshot(database: drillcore.Database, weighted: drillcore.Table) -> None:
    with database.snapshot() as snapshot:
        pinned = snapshot.table("t")
        first, again, other = (pinned.sample(50, weight="weight", replace=True, seed=s).arrow() for s in (1, 1, 2))
    assert first.equals(again)
    assert not first.equals(other)


def test_skip_leaves_out_rows_without_a_proper_weight(weighted: drillcore.Table) -> None:
    data = pa.table(
        {
            "id": range(100, 105),
            "weight": pa.array([1, -1, None, 4, 5]),
            "share": [0.5, 0.5, 0.5, math.nan, 0.5],
        }
    )
    result = weighted.append(data, on_error="skip")
    assert result.rows == 2
    assert [each.row for each in result.rejected] == [1, 2, 3]
    assert "negative" in result.rejected[0].reason


def test_a_table_tells_its_weights(weighted: drillcore.Table) -> None:
    assert (weighted.weights, weighted.merge) == (["weight", "share"], "append")
    assert "weights=['weight', 'share']" in repr(weighted)


def test_a_table_of_other_weights_is_another_shape(database: drillcore.Database, weighted: drillcore.Table) -> None:
    with pytest.raises(drillcore.AlreadyExistsError, match="another shape"):
        database.create_table("t", weighted.schema, key="id", set="name", weights="weight", exist_ok=True)
