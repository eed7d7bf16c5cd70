//! What the system is asked for threads that work behind calls.
#![allow(unsafe_code)]

#[cfg(all(target_os = "linux", target_env = "gnu", not(feature = "shuttle")))]
use libc::{SCHED_BATCH, SCHED_OTHER};

/// Says that the calling thread, and those that it starts from now on, need the processor long rather than soon: when such a
/// thread is woken, it does not interrupt one that runs. Else it would interrupt the commit that woke it, which then
/// waits until the thread's slice of time is used up, a few milliseconds. Its share of the processor stays the same.
///
/// Where the process was started with another policy, and where the system refuses or does not know this, the thread goes on as before.
pub fn be_in_background() {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(feature = "shuttle")))]
    change_policy(SCHED_OTHER, SCHED_BATCH);
}

/// Takes [`be_in_background`] back, for a thread that was started by one in the background and works for all.
pub fn be_in_foreground() {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(feature = "shuttle")))]
    change_policy(SCHED_BATCH, SCHED_OTHER);
}

/// Gives the calling thread another scheduling policy, if it has the one that is expected.
#[cfg(all(target_os = "linux", target_env = "gnu", not(feature = "shuttle")))]
fn change_policy(expected: i32, wanted: i32) {
    let priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 is the calling thread. The first call takes nothing else; the second one reads `priority`, which lives until it has
    // returned.
    unsafe {
        if libc::sched_getscheduler(0) == expected {
            let _ = libc::sched_setscheduler(0, wanted, &priority);
        }
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu", not(feature = "shuttle")))]
#[cfg(test)]
mod tests {
    use std::fs;
    use std::thread;

    use super::*;

    /// The scheduling policy of the calling thread, as the system names it.
    fn policy() -> i32 {
        let line = fs::read_to_string("/proc/thread-self/stat").unwrap();
        // The name of the thread, in brackets, is the second of its fields; the policy is the 41st.
        let fields = line.rsplit(')').next().unwrap();
        fields.split_whitespace().nth(38).unwrap().parse().unwrap()
    }

    #[test]
    fn a_thread_in_the_background_and_those_that_it_starts_interrupt_no_others() {
        if policy() != SCHED_OTHER {
            println!("the tests were started with another policy, which stays");
            return;
        }
        let in_foreground = || {
            be_in_foreground();
            policy()
        };
        let policies = thread::spawn(move || {
            be_in_background();
            let started = [policy as fn() -> i32, in_foreground];
            let [same, other] = started.map(|work| thread::spawn(work).join().unwrap());
            [policy(), same, other]
        });
        assert_eq!(policies.join().unwrap(), [SCHED_BATCH, SCHED_BATCH, SCHED_OTHER]);
        assert_eq!(policy(), SCHED_OTHER);
    }
}
