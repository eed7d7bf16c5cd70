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
use crate::pages::page_writer::{PageWriter, WrittenFile};
use crate::postings::set_lists::{SetLists, put_directory};
use crate::segments::columns::ColumnReader;
use crate::segments::segment::Segment;
use crate::segments::sequence::BlocksAhead;
use crate::segments::weights::weights_of;

/// Rows read at once, unless the names of their sets are long, or a page of the streams ends.
const CHUNK_ROWS: u64 = 4096;

/// How far lists of sets are.
#[derive(Debug, Clone, Copy)]
pub struct Listed {
    /// Rows that are done with.
    pub rows: u64,
    /// About what lists take in memory that are not written yet, and at most on disk.
    pub bytes: usize,
}

/// Reads the set column of a segment and its weights, and lists the rows of the indexed sets in a new file, which is durable
/// afterwards. `go_on` hears after each chunk how far they are, and says how many bytes lists may take in memory from now on, where there
/// are several; if it says nothing, the result is `None`, and the file, if there is one, is not whole.
///
/// Memory: some MiB to read, and what lists of sets take. One pass over the streams of these columns, or over blocks where there are none,
/// or as many as lists need to have room.
pub fn write_postings(
    directory: Arc<dyn Directory>,
    file: SegmentId,
    segment: &Arc<Segment>,
    indexed: &IndexedSets,
    mut go_on: impl FnMut(Listed) -> Option<usize>,
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
        let before = done;
        if !note_all(segment, &mut lists, |of| go_on(Listed { rows: before + of.rows, ..of }))? {
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
    let WrittenFile { bytes, fingerprint } = writer.finish(&payload)?;
    Ok(Some(PostingsMeta { file, bytes, fingerprint }))
}

/// Lists the sets of all rows of a segment. `go_on` hears after each chunk how far these lists are, and says what they may take from now
/// on; whether it said so each time.
pub fn note_all(
    segment: &Arc<Segment>,
    lists: &mut SetLists,
    mut go_on: impl FnMut(Listed) -> Option<usize>,
) -> Result<bool> {
    let layout = segment.layout();
    let column = layout.schema().set_column().expect("only tables with a set column list sets");
    let of_sets = layout.projection(&[column]);
    let mut values: Vec<usize> = layout.weight_values().chain(of_sets.values.clone()).collect();
    values.sort_unstable();
    let projection = layout.stored(of_sets.keys, values);
    let in_key = layout.key_positions(&[column]).into_iter();
    let in_key: Vec<_> = in_key.map(|at| (at, layout.key_types()[at].clone())).collect();
    let mut streams = ColumnReader::open(segment.clone(), &in_key, &projection)?;
    let mut ahead = BlocksAhead::default();
    let mut from = 0;
    while from < segment.rows() {
        let end = segment.rows().min((from / CHUNK_ROWS + 1) * CHUNK_ROWS);
        let of_streams = match &mut streams {
            Some(streams) => {
                let of_group = from..end.min(streams.group_end(from));
                streams.read(of_group, segment.rows())?
            }
            None => None,
        };
        let rows = match of_streams {
            Some(rows) => rows,
            None => {
                let bytes_max = byte_bounds::chunk();
                segment.read_some(from..end, &projection, bytes_max, &mut ahead, segment.rows())?
            }
        };
        let to = from + rows.len() as u64;
        let fault = |error| StorageError::Inconsistent {
            file: segment.name().to_string(),
            detail: format!("the sets of the rows {from}..{to}: {error}"),
        };
        let weights = weights_of(layout, &rows, &projection).map_err(fault)?;
        lists.note(layout, &rows.narrow(&projection, &of_sets), &weights, from).map_err(fault)?;
        let listed = Listed { rows: lists.rows(), bytes: lists.bytes() };
        let Some(bytes_max) = go_on(listed) else { return Ok(false) };
        lists.limit(bytes_max);
        lists.make_room();
        from = to;
    }
    Ok(true)
}
