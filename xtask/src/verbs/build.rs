//! `cargo xtask build`.

use crate::image;
use anyhow::Result;
use std::process::ExitCode;

/// Arguments of `build`.
#[derive(Debug, clap::Args)]
pub struct Arguments {}

/// Builds the image and says where it is.
pub fn build(_: &Arguments) -> Result<ExitCode> {
    let image = image::build()?;
    let (loaded, limit) = (image.loaded >> 10, image::SIZE_LIMIT >> 10);
    println!("{}: {loaded} KiB when loaded (limit {limit} KiB)", image.path.display());
    println!("{}: with symbols", image.kernel.display());
    Ok(ExitCode::SUCCESS)
}
