//! What the tests of several crates, the fuzz targets and the benches share: real servers, and for tests without one
//! helpers, fuzz targets and independent implementations.

pub mod callgrind;
pub mod count_min;
pub mod draft;
pub mod fuzz;
pub mod harness;
pub mod loader;
pub mod naive;
pub mod plain;
pub mod support;
pub mod tables;
