//! What is fetched of rows.

use arrow_schema::DataType;

/// What must be fetched to decode some columns; by default nothing.
///
/// It says all that is needed to read rows that were written before columns were added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Projection {
    /// Whether encoded keys are needed.
    pub keys: bool,
    /// Indexes into [`Layout::value_types`](crate::rows::Layout::value_types), ascending.
    pub values: Vec<usize>,
    /// The type of each of these values. `Null` of one that stores no column any more: it is not read, and null.
    pub types: Vec<DataType>,
    /// Of values that got wider types, where older rows have them, with the type there; the last one first.
    pub earlier: Vec<(usize, usize, DataType)>,
}

impl Projection {
    /// Whether some of the values can be so long that they lie apart from their rows' blocks.
    pub fn has_strings(&self) -> bool {
        self.types.iter().any(|of| matches!(of, DataType::Utf8 | DataType::Binary))
    }

    /// Where rows have a value that were written before it got its type, with the type there; the last one first.
    pub fn earlier(&self, value: usize) -> impl Iterator<Item = (usize, &DataType)> {
        let of_value = self.earlier.iter().filter(move |(of, ..)| *of == value);
        of_value.map(|(_, at, data_type)| (*at, data_type))
    }
}
