//! The largest memory of this process in a stretch of time, as Linux keeps it.

/// Measures the peak of resident memory between a reset and a question.
///
/// The peak is that of the whole process: it means one method only where no other scene runs beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeakMemory {
    /// Reads and resets the high-water mark of `/proc/self`.
    Measured,
    /// Says nothing: several scenes run at once.
    Unknown,
}

impl PeakMemory {
    /// Begins a stretch.
    pub(crate) fn reset(self) {
        if self == Self::Measured {
            // Not permitted everywhere; `peak` then tells the peak since the start of the process, an upper bound.
            let _ = std::fs::write("/proc/self/clear_refs", "5");
        }
    }

    /// The peak since the last reset in MiB; `None` where it is not known.
    pub(crate) fn peak(self) -> Option<f64> {
        if self == Self::Unknown {
            return None;
        }
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kibibytes: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        Some(kibibytes / 1024.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn peak_sees_an_allocation_that_is_gone_again() {
        PeakMemory::Measured.reset();
        let before = PeakMemory::Measured.peak().unwrap();
        let block = std::hint::black_box(vec![1u8; 64 << 20]);
        assert_eq!(block[block.len() / 2], 1);
        drop(block);
        assert!(PeakMemory::Measured.peak().unwrap() > before + 50.0);
        assert_eq!(PeakMemory::Unknown.peak(), None);
    }
}
