//! What the fuzz targets in `targets` share.

pub mod handover;
pub mod heap;
pub mod physical;
pub mod start;
