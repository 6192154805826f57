//! Helpers that several modules of tests share. This folder has no tests.

pub mod aof;
pub mod blobs;
pub mod certificates;
pub mod commands;
pub mod configured;
pub mod cuckoo;
pub mod cutter;
pub mod effects;
pub mod forged;
pub mod periods;
pub mod pieces;
pub mod population;
pub mod primary;
pub mod protocols;
pub mod recordings;
pub mod repeated;
pub mod sketches;
pub mod sums;
pub mod tables;
pub mod usage;

pub use valkeybloom_testing::support::Rng;
