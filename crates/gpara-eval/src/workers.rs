//! Independent items by several threads.

use std::sync::atomic::{AtomicUsize, Ordering};

/// `job` of every item by `jobs` threads (at least 1), answers in the order of the items. A thread whose job fails takes no further item;
/// the first failure in the order of the threads is returned once all have ended.
///
/// Plain threads, not rayon's: a worker of that pool that waits inside one item would take up another one in the middle of it.
///
/// # Errors
/// That of a job.
///
/// # Panics
/// If a job does.
pub fn in_threads<I: Sync, T: Send, E: Send>(
    items: &[I],
    jobs: usize,
    job: impl Fn(&I) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut made = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return Ok(made) };
            made.push((at, job(item)?));
        }
    };
    let made = std::thread::scope(|threads| {
        let handles: Vec<_> = (0..jobs.clamp(1, items.len().max(1))).map(|_| threads.spawn(worker)).collect();
        let joined = handles.into_iter().map(|handle| handle.join().expect("a job does not panic"));
        joined.collect::<Result<Vec<Vec<(usize, T)>>, E>>()
    })?;
    let mut made: Vec<(usize, T)> = made.into_iter().flatten().collect();
    made.sort_by_key(|(at, _)| *at);
    Ok(made.into_iter().map(|(_, answer)| answer).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_stand_in_the_order_of_the_items_for_any_number_of_threads() {
        let items: Vec<u64> = (0..40).collect();
        for jobs in [0, 1, 3, 100] {
            let squares = in_threads(&items, jobs, |item| Ok::<_, ()>(item * item)).unwrap();
            assert_eq!(squares, items.iter().map(|item| item * item).collect::<Vec<_>>());
        }
        assert_eq!(in_threads(&[], 2, |item: &u64| Ok::<_, ()>(*item)), Ok(vec![]));
    }

    #[test]
    fn a_failure_is_returned() {
        let failed = in_threads(&[1, 2, 3], 1, |&item| if item == 2 { Err(item) } else { Ok(item) });
        assert_eq!(failed, Err(2));
    }
}
