//! A scan whose reader may let it rest, for as long as it likes.
//!
//! It would hold the rows that were in memory when it began. Once these are spilled it goes on with their files: the job that spills them
//! sees to that where the scan rests, and the scan itself where it is read just then.

use std::sync::{Arc, Weak};

use arrow_array::RecordBatch;
use parking_lot::Mutex;

use crate::error::Result;
use crate::read::partition::{KeyPartition, PartitionScan};
use crate::select::read_memory::{HoldsPieces, ReadMemory};

/// See the module.
pub struct HeldScan {
    scan: Arc<Resting>,
    memory: Arc<ReadMemory>,
    /// How often rows had been spilled when it last let go of such.
    spills: u64,
}

struct Resting(Mutex<PartitionScan>);

impl HeldScan {
    /// Starts to read a partition.
    pub fn start(partition: &KeyPartition) -> HeldScan {
        let memory = partition.memory().clone();
        let spills = memory.spills();
        let scan = Arc::new(Resting(Mutex::new(partition.start())));
        let held: Weak<Resting> = Arc::downgrade(&scan);
        memory.note_holder(held);
        HeldScan { scan, memory, spills }
    }

    /// [`PartitionScan::next_batch`].
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let batch = self.scan.0.lock().next_batch();
        let spills = self.memory.spills();
        if spills != self.spills {
            self.spills = spills;
            self.scan.let_go_of_spilled();
        }
        batch
    }
}

impl HoldsPieces for Resting {
    fn let_go_of_spilled(&self) {
        if let Some(mut scan) = self.0.try_lock() {
            scan.let_go_of_spilled();
        }
    }
}
