//! An image with the fixture in a layer: files that come with the image, as a deployed one may have them.

use std::fs;
use std::path::Path;

use super::UP;
use crate::Refusal;
use crate::place::Place;

/// Where the files lie in it. Not at /srv, where compose.yaml mounts a directory.
pub const ROOT: &str = "/layer";

/// Removed with its owner.
#[derive(Debug)]
pub struct Layer {
    image: String,
    place: Place,
}

impl Layer {
    /// Lays a directory over the image `base`, under a name of its own.
    ///
    /// # Errors
    /// It does not build.
    pub fn over(base: &str, name: &str, files: &Path, scratch: &Path) -> Result<Layer, Refusal> {
        fs::create_dir_all(scratch)?;
        let recipe = scratch.join("layer.Dockerfile");
        fs::write(&recipe, format!("FROM {base}\nCOPY . {ROOT}\n"))?;
        let layer = Layer { image: name.to_owned(), place: Place::here(scratch) };
        let (recipe, files) = (recipe.display().to_string(), files.display().to_string());
        // Through Ctrl-C: it takes a second, and an image that comes later would stay.
        let words = ["docker", "build", "--quiet", "--tag", name, "--file", &recipe, &files];
        let text = layer.place.finish(&words, UP)?;
        if text.is_good {
            return Ok(layer);
        }
        Err(Refusal::new(format!("no image with the files in a layer: {}", text.why())))
    }

    /// As the engine knows it.
    #[must_use]
    pub fn image(&self) -> &str {
        &self.image
    }
}

impl Drop for Layer {
    fn drop(&mut self) {
        // One that did not build is not there.
        let _ = self.place.finish(&["docker", "image", "rm", "--force", &self.image], UP);
    }
}
