//! Disks, files and processes that fail. One program, as linking one takes longer than running most.

mod backup;
mod cleaning;
mod close;
mod crash;
mod damage;
mod exchanged;
mod failing_reads;
mod interrupts;
mod log_power_cuts;
mod positions;
mod reads;
mod reshaping;
mod side_by_side;
mod slow_directory;
mod slow_merges;
mod small_disk;
mod spilling;
mod strange_files;
mod trips;
