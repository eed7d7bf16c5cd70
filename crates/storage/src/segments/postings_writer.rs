//! Writing the set index of a segment that was written without, into a file beside it.

use std::sync::Arc;

use drillcore_format::byte_bounds;
use drillcore_format::file_tail::FileKind;
use drillcore_format::ids::SegmentId;
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::manifest_edit::PostingsMeta;
use drillcore_format::postings::PostingsWriter;
use drillcore_format::postings_footer::PostingsFooter;

use crate::error::{Result, StorageError};
use crate::files::directory::Directory;
use crate::pages::page_writer::PageWriter;
use crate::postings::set_lists::{SetLists, put_directory};
use crate::segments::segment::Segment;
use crate::segments::weights::weights_of;

/// Rows read at once, unless the names of their sets are long.
const CHUNK_ROWS: u64 = 4096;

/// Reads the set column of a segment and its weights, past the cache, and lists the rows of the indexed sets in a new
/// file, which is durable afterwards. `go_on` hears after each chunk how many rows are done with; if it says no,
/// the result is `None`, and the file, if there is one, is not whole.
///
/// Memory: some MiB to read, and what lists of sets take. One pass over the rows, or as many as lists need to have room.
pub fn write_postings(
    directory: Arc<dyn Directory>,
    file: SegmentId,
    segment: &Segment,
    indexed: &IndexedSets,
    mut go_on: impl FnMut(u64) -> bool,
) -> Result<Option<PostingsMeta>> {
    let layout = segment.layout();
    let column = layout.schema().set_column().expect("only tables with a set column index sets");
    let mut lists = SetLists::new(indexed.clone(), layout);
    if !note_all(segment, &mut lists, &mut go_on)? {
        return Ok(None);
    }
    let mut writer = PageWriter::create(directory, FileKind::Postings, file)?;
    let mut postings = PostingsWriter::new(file, writer.position(), layout.weight_count());
    let mut done = lists.rows();
    lists.write(segment.rows(), &mut postings, &mut writer)?;
    while let Some(next) = lists.of_those_left_out() {
        lists = next;
        if !note_all(segment, &mut lists, |rows| go_on(done + rows))? {
            return Ok(None);
        }
        done += lists.rows();
        lists.write(segment.rows(), &mut postings, &mut writer)?;
    }
    let footer = PostingsFooter {
        file,
        segment: segment.id(),
        rows: segment.rows(),
        set_column: layout.schema().stored.number(column) as u32,
        indexed: indexed.clone(),
        set_directory: put_directory(postings, &mut writer),
    };
    let mut payload = Vec::new();
    footer.encode(&mut payload);
    let bytes = writer.finish(&payload)?;
    Ok(Some(PostingsMeta { file, bytes }))
}

/// Lists the sets of all rows of a segment. `go_on` hears after each chunk how many of them are done with; whether it said yes
/// each time.
pub fn note_all(
    segment: &Segment,
    lists: &mut SetLists,
    mut go_on: impl FnMut(u64) -> bool,
) -> Result<bool> {
    let layout = segment.layout();
    let column = layout.schema().set_column().expect("only tables with a set column list sets");
    let of_sets = layout.projection(&[column]);
    let mut values: Vec<usize> = layout.weight_values().chain(of_sets.values.clone()).collect();
    values.sort_unstable();
    let projection = layout.stored(of_sets.keys, values);
    let mut from = 0;
    while from < segment.rows() {
        let end = segment.rows().min(from + CHUNK_ROWS);
        let rows = segment.read_some(from, end, &projection, byte_bounds::chunk())?;
        let to = from + rows.len() as u64;
        let fault = |error| StorageError::Inconsistent {
            file: segment.name().to_string(),
            detail: format!("the sets of the rows {from}..{to}: {error}"),
        };
        let weights = weights_of(layout, &rows, &projection).map_err(fault)?;
        lists.note(layout, &rows.narrow(&projection, &of_sets), &weights, from).map_err(fault)?;
        lists.make_room();
        from = to;
        if !go_on(lists.rows()) {
            return Ok(false);
        }
    }
    Ok(true)
}
