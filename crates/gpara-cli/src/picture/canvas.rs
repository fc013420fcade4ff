//! An RGB image with filled rectangles, discs, triangles and 8 x 8 bitmap text.

use font8x8::UnicodeFonts;
use image::RgbImage;

use super::color_map::Rgb;

/// Side of a character cell in font pixels.
const GLYPH: u32 = 8;

/// What is drawn on; whatever falls outside is cut.
pub(super) struct Canvas {
    image: RgbImage,
}

impl Canvas {
    pub(super) fn new(width: u32, height: u32, background: Rgb) -> Self {
        Self { image: RgbImage::from_pixel(width, height, image::Rgb(background)) }
    }

    pub(super) fn into_image(self) -> RgbImage {
        self.image
    }

    pub(super) fn rectangle(&mut self, left: u32, top: u32, width: u32, height: u32, color: Rgb) {
        for y in top..(top + height).min(self.image.height()) {
            for x in left..(left + width).min(self.image.width()) {
                self.image.put_pixel(x, y, image::Rgb(color));
            }
        }
    }

    /// A one-pixel frame just outside the given rectangle.
    pub(super) fn frame(&mut self, left: u32, top: u32, width: u32, height: u32, color: Rgb) {
        self.rectangle(left - 1, top - 1, width + 2, 1, color);
        self.rectangle(left - 1, top + height, width + 2, 1, color);
        self.rectangle(left - 1, top - 1, 1, height + 2, color);
        self.rectangle(left + width, top - 1, 1, height + 2, color);
    }

    /// Fills the pixels whose centre satisfies `inside(dx, dy)`, offsets in pixels from (x, y) and at most `reach`.
    fn fill_shape(&mut self, (x, y): (f64, f64), reach: f64, color: Rgb, inside: impl Fn(f64, f64) -> bool) {
        let span = |at: f64, size: u32| {
            let last = (at + reach).ceil().min(f64::from(size)) as u32;
            ((at - reach).floor().max(0.0) as u32)..last
        };
        for py in span(y, self.image.height()) {
            for px in span(x, self.image.width()) {
                if inside(f64::from(px) + 0.5 - x, f64::from(py) + 0.5 - y) {
                    self.image.put_pixel(px, py, image::Rgb(color));
                }
            }
        }
    }

    pub(super) fn disc(&mut self, center: (f64, f64), radius: f64, color: Rgb) {
        self.fill_shape(center, radius, color, |dx, dy| dx * dx + dy * dy <= radius * radius);
    }

    /// A triangle that points up, `radius` from centre to corner.
    pub(super) fn triangle(&mut self, center: (f64, f64), radius: f64, color: Rgb) {
        self.fill_shape(center, radius, color, |dx, dy| {
            let half_width = (dy + radius) / 3f64.sqrt();
            dy <= 0.5 * radius && dx.abs() <= half_width
        });
    }

    /// Text with its upper left corner at (left, top), each font pixel `scale` pixels wide.
    pub(super) fn text(&mut self, left: u32, top: u32, scale: u32, color: Rgb, text: &str) {
        for (place, character) in text.chars().enumerate() {
            let glyph = font8x8::BASIC_FONTS
                .get(character)
                .or_else(|| font8x8::LATIN_FONTS.get(character))
                .or_else(|| font8x8::BASIC_FONTS.get('?'))
                .expect("the font holds a question mark");
            let left = left + place as u32 * GLYPH * scale;
            for (row, bits) in glyph.iter().enumerate() {
                for column in (0..GLYPH).filter(|column| bits >> column & 1 == 1) {
                    self.rectangle(left + column * scale, top + row as u32 * scale, scale, scale, color);
                }
            }
        }
    }
}

/// Width of a text in pixels.
pub(super) fn text_width(text: &str, scale: u32) -> u32 {
    text.chars().count() as u32 * GLYPH * scale
}

/// Height of a line of text in pixels.
pub(super) fn text_height(scale: u32) -> u32 {
    GLYPH * scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_inside_its_measured_box() {
        let text = "Wg|0";
        let mut canvas = Canvas::new(text_width(text, 2), text_height(2), [255; 3]);
        canvas.text(0, 0, 2, [0; 3], text);
        let dark = canvas.into_image().pixels().filter(|pixel| pixel.0 == [0; 3]).count();
        let mut roomy = Canvas::new(text_width(text, 2) + 40, text_height(2) + 40, [255; 3]);
        roomy.text(0, 0, 2, [0; 3], text);
        assert!(dark > 0);
        assert_eq!(dark, roomy.into_image().pixels().filter(|pixel| pixel.0 == [0; 3]).count());
    }

    #[test]
    fn shapes_at_the_border_are_cut() {
        let mut canvas = Canvas::new(4, 4, [255; 3]);
        canvas.disc((0.0, 0.0), 2.0, [0; 3]);
        canvas.triangle((4.0, 4.0), 3.0, [0; 3]);
        assert_eq!(canvas.into_image().get_pixel(0, 0).0, [0; 3]);
    }
}
