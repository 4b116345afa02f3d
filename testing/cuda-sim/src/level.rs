//! Behaviour levels: which driver the stand-in plays.
use serde::{Deserialize, Serialize};

/// A driver branch, by the number that people call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Level(u32);

const LEVELS: &[(u32, &str, i32)] = &[
    (550, "550.54.15", 12040),
    (555, "555.58.02", 12050),
    (570, "570.124.06", 12080),
    (575, "575.57.08", 12090),
    (580, "580.95.05", 13000),
    (610, "610.57.04", 13030),
    (615, "615.10.02", 13040),
];

impl Default for Level {
    fn default() -> Self {
        Self(580)
    }
}

impl Level {
    /// The level of that number, if we know it.
    #[must_use]
    pub fn new(number: u32) -> Option<Self> {
        LEVELS.iter().find(|row| row.0 == number).map(|row| Self(row.0))
    }

    /// The newest that we know.
    #[must_use]
    pub fn newest() -> Self {
        LEVELS.last().map_or_else(Self::default, |row| Self(row.0))
    }

    /// 580, say.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }

    fn row(self) -> (u32, &'static str, i32) {
        LEVELS.iter().copied().find(|row| row.0 == self.0).unwrap_or((580, "580.95.05", 13000))
    }

    /// The full version of the driver, `580.95.05`.
    #[must_use]
    pub fn driver(self) -> &'static str {
        self.row().1
    }

    /// What `cuDriverGetVersion` answers, 13000 for CUDA 13.0.
    #[must_use]
    pub fn cuda(self) -> i32 {
        self.row().2
    }

    /// Has the driver the checkpoint calls?
    #[must_use]
    pub fn checkpoints(self) -> bool {
        self.0 >= 570
    }

    /// Does restore take GPU pairs?
    #[must_use]
    pub fn pairs(self) -> bool {
        self.0 >= 580
    }

    /// Does checkpoint take custom storage?
    #[must_use]
    pub fn custom_storage(self) -> bool {
        self.0 >= 615
    }
}
