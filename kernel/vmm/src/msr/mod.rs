//! Model-specific registers.

mod fault;

pub use fault::{FaultReason, MsrFault};
