//! Writing the set index of a segment that was written without, into a file beside it.

use std::sync::Arc;

use drillcore_format::byte_bounds;
use drillcore_format::file_tail::FileKind;
use drillcore_format::ids::SegmentId;
use drillcore_format::indexed_sets::IndexedSets;
use drillcore_format::manifest_edit::PostingsMeta;
use drillcore_format::postings_footer::PostingsFooter;

use crate::error::{Result, StorageError};
use crate::files::directory::Directory;
use crate::pages::page_writer::PageWriter;
use crate::postings::set_lists::SetLists;
use crate::segments::segment::Segment;
use crate::segments::weights::weights_of;

/// Rows read at once, unless the names of their sets are long.
const CHUNK_ROWS: u64 = 4096;

/// Reads the set column of a segment and its weights once, past the cache, and lists the rows of the indexed sets in a new
/// file, which is durable afterwards. `go_on` hears after each chunk how many rows were read; if it says no,
/// nothing is written, and the result is `None`.
///
/// Memory: about a byte or two per listed row, 100 and its name per set, and some MiB to read.
pub fn write_postings(
    directory: Arc<dyn Directory>,
    file: SegmentId,
    segment: &Segment,
    indexed: &IndexedSets,
    mut go_on: impl FnMut(u64) -> bool,
) -> Result<Option<PostingsMeta>> {
    let layout = segment.layout();
    let column = layout.schema().set_column().expect("only tables with a set column index sets");
    let of_sets = layout.projection(&[column]);
    let mut values: Vec<usize> = layout.weight_values().chain(of_sets.values.clone()).collect();
    values.sort_unstable();
    let projection = layout.stored(of_sets.keys, values);
    let mut lists = SetLists::new(indexed.clone(), layout);
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
        from = to;
        if !go_on(from) {
            return Ok(None);
        }
    }
    let mut writer = PageWriter::create(directory.clone(), FileKind::Postings, file)?;
    let footer = PostingsFooter {
        file,
        segment: segment.id(),
        rows: segment.rows(),
        set_column: layout.schema().stored.number(column) as u32,
        indexed: indexed.clone(),
        set_directory: lists.write(segment.rows(), &mut writer)?,
    };
    let mut payload = Vec::new();
    footer.encode(&mut payload);
    let bytes = writer.finish(&payload)?;
    Ok(Some(PostingsMeta { file, bytes }))
}
