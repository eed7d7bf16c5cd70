//! Programs for cargo-fuzz, one a target of `drillcore_testkit::fuzzing`; all they do is to run it.

use drillcore_sample::rng::Rng;
pub use drillcore_testkit::fuzzing::FuzzTarget;
use drillcore_testkit::fuzzing::mutation::mutate;
use drillcore_testkit::fuzzing::parts::{join, split};
pub use libfuzzer_sys;

/// The program of a target.
#[macro_export]
macro_rules! program {
    ($name:literal) => {
        $crate::libfuzzer_sys::fuzz_target!(|input: &[u8]| {
            $crate::FuzzTarget::named($name).run(input);
        });
        $crate::libfuzzer_sys::fuzz_mutator!(
            |data: &mut [u8], size: usize, max_size: usize, seed: u32| {
                $crate::mutated(data, size, max_size, seed)
            }
        );
    };
}

/// Changes an input in place, and gives its new length: mostly part by part, else as libFuzzer does.
pub fn mutated(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    if seed % 4 == 0 {
        return libfuzzer_sys::fuzzer_mutate(data, size, max_size);
    }
    let parts = split(&data[..size]);
    let mut changed = parts.clone();
    mutate(&mut changed, &parts, &mut Rng::keyed(seed.into(), 0));
    let input = join(&changed);
    let len = input.len().min(max_size);
    data[..len].copy_from_slice(&input[..len]);
    len
}
