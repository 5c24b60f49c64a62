//! What the fuzz targets in `targets` share.

pub mod guest;
pub mod handover;
pub mod heap;
pub mod native;
pub mod operands;
pub mod physical;
pub mod policy;
pub mod reference_walk;
pub mod start;
