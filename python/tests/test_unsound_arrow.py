"""Arrow data whose values are not as their types say: libraries hand on what they read from files without a look."""

import pyarrow as pa
import pytest

import drillcore

NOT_UTF8 = pa.array([b"good", b"\xe9t\xe9"])


def dictionary(codes: list[int]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(["a", "b"]), safe=False)


UNSOUND = {
    "text": NOT_UTF8.view(pa.string()),
    "long text": NOT_UTF8.cast(pa.large_binary()).view(pa.large_string()),
    "text view": NOT_UTF8.cast(pa.binary_view()).view(pa.string_view()),
    "dictionary of texts": pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), NOT_UTF8.view(pa.string())),
    "code beyond the dictionary": dictionary([0, 5]),
    "negative code": dictionary([0, -1]),
}


@pytest.mark.parametrize("values", UNSOUND.values(), ids=UNSOUND)
def test_what_could_not_be_read_again_is_refused_and_the_database_stays_whole(values: pa.Array, tmp_path) -> None:
    path = tmp_path / "db"
    with drillcore.open(path) as db:
        t = db.create_table("t", {"id": "int64", "name": "string"}, key="id")
        t.append([{"id": 1, "name": "a"}])
        rows = pa.table({"id": [2, 3], "name": values})
        for store in (t.append, t.load, t.writer().add, lambda rows: db.append({"t": rows})):
            with pytest.raises(drillcore.InvalidArgumentError, match="name"):
                store(rows)
    with drillcore.open(path) as db:
        assert db.table("t").scan().arrow().to_pylist() == [{"id": 1, "name": "a"}]


def test_the_message_names_the_row_of_the_batch() -> None:
    db = drillcore.open(":memory:")
    t = db.create_table("t", {"id": "int64", "name": "string"}, key="id")
    rows = pa.table({"id": [2, 3], "name": UNSOUND["text"]})
    with pytest.raises(drillcore.InvalidArgumentError, match='column "name", row 1: the text is not UTF-8; decode it'):
        t.append(rows)
    # What is left out of a slice does not count, nor do the bytes of a null.
    t.append(rows.slice(0, 1))
    null = pa.Array.from_buffers(pa.string(), 2, [pa.py_buffer(b"\x01"), *UNSOUND["text"].buffers()[1:]])
    t.append(pa.table({"id": [4, 5], "name": null}))
    assert t.scan().arrow()["name"].to_pylist() == ["good", "good", None]


@pytest.mark.parametrize("values", [[b"\xff"], [b"a", b"\xff"]])
def test_items_of_lists_are_checked(values: list[bytes]) -> None:
    db = drillcore.open(":memory:")
    t = db.create_table("t", {"id": "int64", "tags": "list<string>"}, key="id")
    offsets = pa.array([0, len(values)], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, pa.array(values).view(pa.string()))
    with pytest.raises(drillcore.InvalidArgumentError, match=r"tags.*item"):
        t.append(pa.table({"id": [1], "tags": lists}))
    assert t.count() == 0


def test_keys_are_checked() -> None:
    db = drillcore.open(":memory:")
    t = db.create_table("t", {"id": "string"}, key="id", merge="upsert")
    t.append([{"id": "a"}])
    for call in (t.delete, t.get_many):
        with pytest.raises(drillcore.Error, match="not UTF-8"):
            call(UNSOUND["text"])
    assert t.count() == 1


def test_decimals_have_no_more_digits_than_their_type() -> None:
    db = drillcore.open(":memory:")
    t = db.create_table("t", {"id": "int64", "price": pa.decimal128(10, 2)}, key="id")
    long = pa.py_buffer((10**30).to_bytes(16, "little", signed=True))
    rows = pa.table({"id": [1], "price": pa.Array.from_buffers(pa.decimal128(10, 2), 1, [None, long])})
    with pytest.raises(drillcore.InvalidArgumentError, match="price"):
        t.append(rows)


@pytest.mark.parametrize("verb", ["append", "load"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_rows_whose_texts_are_no_texts_can_be_left_out(verb: str, kind: pa.DataType) -> None:
    t = drillcore.open(":memory:").create_table("t", {"id": "int64", "name": "string", "n": "int8"}, key="id")
    binary = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}[kind]
    names = pa.array([b"\xff", b"a", None, b"\xfe", b"\xfd", b"b", b"c"], binary).view(kind)
    # The last but one does not fit, either.
    rows = pa.table({"id": range(7), "name": names, "n": [1, 1, 1, 1, 1000, 1000, 1]})
    stored = getattr(t, verb)(rows, on_error="skip")
    assert stored.rows == 3
    assert [(one.row, "UTF-8" in one.reason) for one in stored.rejected] == [
        (0, True),
        (3, True),
        (4, True),
        (5, False),
    ]
    assert t.scan().arrow()["name"].to_pylist() == ["a", None, "c"]


@pytest.mark.parametrize("ends", [[0, 5, 3], [0, 2_000_000_000, 3]])
@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.large_binary(), pa.large_string()])
def test_values_outside_of_their_buffer_are_refused(kind: pa.DataType, ends: list[int]) -> None:
    t = drillcore.open(":memory:").create_table("t", {"id": "int64", "photo": "binary"}, key="id")
    wide = kind in (pa.large_binary(), pa.large_string())
    ends_of = pa.array(ends, pa.int64() if wide else pa.int32()).buffers()[1]
    values = pa.Array.from_buffers(kind, 2, [None, ends_of, pa.py_buffer(b"abcde")])
    with pytest.raises(drillcore.InvalidArgumentError, match="photo"):
        t.append(pa.table({"id": [1, 2], "photo": values}))
    # In a stream each batch is looked at before it is put together with others.
    with pytest.raises(drillcore.InvalidArgumentError, match="photo"):
        t.append(pa.table({"id": [1, 2, 3, 4], "photo": pa.chunked_array([values, values])}))
    assert t.count() == 0


def test_rows_are_named_by_their_places_in_the_whole_stream() -> None:
    t = drillcore.open(":memory:").create_table("t", {"id": "int64", "name": "string"}, key="id")
    names = pa.chunked_array([pa.array(["a", "b"]), UNSOUND["text"], UNSOUND["text"]])
    rows = pa.table({"id": range(6), "name": names})
    with pytest.raises(drillcore.InvalidArgumentError, match='column "name", row 3: '):
        t.append(rows)
    assert [one.row for one in t.append(rows, on_error="skip").rejected] == [3, 5]
    assert t.scan().arrow()["name"].to_pylist() == ["a", "b", "good", "good"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.string_view()], ids=str)
def test_a_slice_without_rows_is_sound_though_it_comes_without_its_bytes(kind: pa.DataType) -> None:
    db = drillcore.open(":memory:")
    column = "data" if pa.types.is_binary(kind) else "name"
    t = db.create_table("t", {"id": "int64", "name": "string", "data": "binary", "tags": "list<string>"}, key="id")
    values = pa.array(["a", "b", "c"]).cast(kind)
    batch = pa.record_batch({"id": pa.array([1, 2, 3]), column: values})
    assert t.append(batch.slice(3)).rows == 0
    stream = pa.RecordBatchReader.from_batches(batch.schema, [batch, batch.slice(3)])
    assert t.append(stream).rows == 3
    nothing = pa.DictionaryArray.from_arrays(pa.array([None], pa.int8()), values[3:])
    assert t.append(pa.record_batch({"id": pa.array([4]), column: nothing})).rows == 1
    empty = pa.ListArray.from_arrays(pa.array([0, 0], pa.int32()), pa.array(["a"])[1:])
    assert t.append(pa.record_batch({"id": pa.array([5]), "tags": empty})).rows == 1
    assert t.get(5)["tags"] == []


def test_a_code_that_is_not_in_the_dictionary_names_its_row_which_can_be_left_out() -> None:
    db = drillcore.open(":memory:")
    t = db.create_table("t", {"id": "int64", "name": "string"}, key="id")
    rows = pa.table({"id": [1, 2, 3, 4], "name": dictionary([0, 5, 1, -1])})
    with pytest.raises(
        drillcore.InvalidArgumentError, match='column "name", row 1: its code is not among the 2 values'
    ):
        t.append(rows)
    assert [rejected.row for rejected in t.append(rows, on_error="skip").rejected] == [1, 3]
    assert t.scan().arrow()["name"].to_pylist() == ["a", "b"]
