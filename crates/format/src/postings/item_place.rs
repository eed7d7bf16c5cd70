//! Where in postings pages something lies.

use crate::error::{FormatError, Result};
use crate::page::PAGE_BYTES;

/// Where a chunk, a skip table or a weight table lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ItemPlace {
    /// File offset of the postings page, which is [`PAGE_BYTES`] long.
    pub page_offset: u64,
    /// Byte position in the page's payload.
    pub position: u16,
}

/// Postings pages are aligned, so that a page number of 32 bits reaches 16 TiB.
pub(super) fn page_number(place: ItemPlace) -> u32 {
    u32::try_from(place.page_offset / PAGE_BYTES as u64)
        .expect("a segment file is shorter than 16 TiB")
}

pub(super) fn place_of(page: u32, position: u16) -> ItemPlace {
    ItemPlace { page_offset: u64::from(page) * PAGE_BYTES as u64, position }
}

pub(super) fn item_at(payload: &[u8], position: u16) -> Result<&[u8]> {
    payload.get(usize::from(position)..).ok_or_else(|| {
        let detail = format!("byte {position} of {} is named", payload.len());
        FormatError::malformed("postings page", detail)
    })
}
