//! Long histories beside the model, and many threads. One program, as linking one takes longer than running most.

mod add_column;
mod bad_input;
mod model;
mod readers;
mod set_indexes;
mod threads;
