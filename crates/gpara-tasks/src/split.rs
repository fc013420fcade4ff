//! The three parts of a data set.

/// Part of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Split {
    /// For fitting.
    Train,
    /// For choosing settings.
    Validation,
    /// For reported numbers only.
    Test,
}

impl Split {
    /// The key of this part in `split.json`.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "val",
            Self::Test => "test",
        }
    }
}
