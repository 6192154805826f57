//! The periods of windows.

/// A window of two periods of thirty years each, so that none ends during a test.
pub const LASTING_WINDOW: &str = "WINDOW 1000000000000 PERIODS 2";
