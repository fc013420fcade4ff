//! Memory is estimated before it is taken; what cannot fit is refused with the number.

use thiserror::Error as ThisError;

use crate::error::{ErrorDetail, ErrorKind, Result};

/// Requests below this are not worth asking the system about.
const ALWAYS_ALLOWED: u64 = 64 << 20;

/// Refuses work that needs more bytes than the system can give; where the system does not tell, everything passes.
///
/// # Errors
/// `OutOfMemory` with both numbers and `hint`.
pub(crate) fn check_memory(what: &'static str, needed: u64, hint: &'static str) -> Result<()> {
    if needed <= ALWAYS_ALLOWED {
        return Ok(());
    }
    match available_memory() {
        Some(available) => check_against(what, needed, available, hint),
        None => Ok(()),
    }
}

fn check_against(what: &'static str, needed: u64, available: u64, hint: &'static str) -> Result<()> {
    if needed <= available { Ok(()) } else { Err(MemoryError { what, needed, available, hint }.into()) }
}

/// Bytes that can be taken without swapping: the smaller of what Linux and the container leave; `None` elsewhere.
fn available_memory() -> Option<u64> {
    let system = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| mem_available(&text))?;
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let container = number("/sys/fs/cgroup/memory.max").zip(number("/sys/fs/cgroup/memory.current"));
    Some(container.map_or(system, |(limit, used)| system.min(limit.saturating_sub(used))))
}

/// The `MemAvailable` line of /proc/meminfo, in bytes.
fn mem_available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[derive(Debug, ThisError)]
#[error("{what} needs about {} MB of memory, {} MB are available", needed >> 20, available >> 20)]
struct MemoryError {
    what: &'static str,
    needed: u64,
    available: u64,
    hint: &'static str,
}

impl ErrorDetail for MemoryError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::OutOfMemory
    }

    fn hint(&self) -> Option<String> {
        Some(self.hint.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read_in_bytes_and_nonsense_is_unknown() {
        assert_eq!(mem_available("MemTotal: 9 kB\nMemAvailable:   2048 kB\n"), Some(2 << 20));
        for text in ["", "MemAvailable: many kB", "MemAvailable: 12"] {
            assert_eq!(mem_available(text), None, "{text}");
        }
    }

    #[test]
    fn users_32_what_does_not_fit_is_refused_with_both_numbers_and_a_hint() {
        check_against("a test", 5 << 20, 5 << 20, "shrink it").unwrap();
        let error = check_against("a test", 6 << 20, 5 << 20, "shrink it").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert_eq!(error.to_string(), "a test needs about 6 MB of memory, 5 MB are available");
        assert_eq!(error.hint().as_deref(), Some("shrink it"));
        // 2^60 bytes fit nowhere.
        if available_memory().is_some() {
            assert_eq!(check_memory("a test", 1 << 60, "").unwrap_err().kind(), ErrorKind::OutOfMemory);
        }
    }
}
