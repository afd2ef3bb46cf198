//! PNG pictures for places that take no SVG, rendered from the SVG itself.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

/// The PNG's pixels for each pixel of the SVG's width and height.
const SCALE: f32 = 2.0;

/// A renderer of SVGs, always with the same font: a machine's own would differ, or be missing.
pub(crate) struct Renderer {
    options: Options<'static>,
}

impl Renderer {
    pub(crate) fn new() -> Self {
        let mut fonts = fontdb::Database::new();
        fonts.load_font_data(notosans::REGULAR_TTF.to_vec());
        fonts.set_sans_serif_family("Noto Sans");
        let options = Options {
            fontdb: Arc::new(fonts),
            font_family: "Noto Sans".to_owned(),
            ..Options::default()
        };
        Self { options }
    }

    /// Renders an SVG picture as PNG.
    ///
    /// # Errors
    /// If `svg` is no SVG, or its picture is empty or too large for memory.
    pub(crate) fn png(&self, svg: &str) -> anyhow::Result<Vec<u8>> {
        let tree = Tree::from_str(svg, &self.options)?;
        let size = tree.size();
        let pixels = |length: f32| (length * SCALE).ceil() as u32;
        let (width, height) = (pixels(size.width()), pixels(size.height()));
        let mut pixmap = Pixmap::new(width, height)
            .ok_or_else(|| anyhow::anyhow!("no room for a picture of {width} x {height}"))?;
        resvg::render(
            &tree,
            Transform::from_scale(SCALE, SCALE),
            &mut pixmap.as_mut(),
        );
        Ok(pixmap.encode_png()?)
    }
}
