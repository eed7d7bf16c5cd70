//! What the system is asked for threads whose work no call waits for.
#![allow(unsafe_code)]

/// Says that the calling thread, and those that it starts from now on, need the processor long rather than soon: when such a
/// thread is woken, it does not interrupt one that runs. Else it would interrupt the commit that woke it, which then
/// waits until the thread's slice of time is used up, a few milliseconds. Its share of the processor stays the same.
///
/// Where the system refuses or does not know this, the thread goes on as before.
pub fn be_in_background() {
    #[cfg(all(target_os = "linux", not(feature = "shuttle")))]
    {
        let priority = libc::sched_param { sched_priority: 0 };
        // SAFETY: the call reads `priority`, which lives until it has returned, and nothing else; 0 is the calling thread.
        let _ = unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &priority) };
    }
}

#[cfg(all(target_os = "linux", not(feature = "shuttle")))]
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
        let policies = thread::spawn(|| {
            let before = policy();
            be_in_background();
            [before, policy(), thread::spawn(policy).join().unwrap()]
        });
        let expected = [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_BATCH];
        assert_eq!(policies.join().unwrap(), expected);
        assert_eq!(policy(), libc::SCHED_OTHER);
    }
}
